"""What crun's tests take of libmount's Python module, which Debian has no package of: a table of mounts, read of a file."""


class Mount:
    def __init__(self, line):
        own, _, system = line.partition(" - ")
        own = own.split()
        self.target = own[4]
        self.vfs_options = own[5]
        self.fs_options = system.split()[2]


class Table:
    def __init__(self, path):
        with open(path) as lines:
            self.mounts = [Mount(line) for line in lines if " - " in line]

    def find_target(self, target):
        return next(mount for mount in reversed(self.mounts) if mount.target == target)
