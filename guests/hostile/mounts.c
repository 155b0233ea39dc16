/* System calls on mounts, roots and file handles. */
#include "hostile.h"

#include <sys/mount.h>

/* ---- files by handle ---- */

int attack_open_by_handle(void)
{
	static struct {
		struct file_handle head;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle;
	const char *hex = need("handle");
	const char *anchors[] = { argument("scratch"), argument("readable"), "/tmp", "/" };
	char *rest;
	handle.head.handle_type = (int)strtol(hex, &rest, 10);
	for (rest++; sscanf(rest, "%2hhx", &handle.head.f_handle[handle.head.handle_bytes]) == 1; rest += 2)
		handle.head.handle_bytes++;
	for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
		int anchor = anchors[i] ? open(anchors[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
		int fd = anchor < 0 ? -1 : open_by_handle_at(anchor, &handle.head, O_RDONLY);
		if (fd >= 0 && spill(fd))
			return DONE;
	}
	return refused("open_by_handle_at");
}

/* ---- mounts ---- */

int attack_mount(void)
{
	return mount(nonce(), "/tmp", "tmpfs", 0, NULL) ? refused("mount") : held();
}

int attack_fsopen(void)
{
	return syscall(SYS_fsopen, "tmpfs", 0) < 0 ? refused("fsopen") : held();
}

int attack_open_tree(void)
{
	return syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE) < 0 ? refused("open_tree") : held();
}

int attack_move_mount(void)
{
	int context = (int)syscall(SYS_fsopen, "tmpfs", 0);
	if (context < 0)
		return refused("fsopen");
	syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "source", nonce(), 0);
	syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	int detached = (int)syscall(SYS_fsmount, context, 0, 0);
	if (detached < 0)
		return refused("fsmount");
	if (syscall(SYS_move_mount, detached, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH))
		return refused("move_mount");
	return held();
}

int attack_mount_setattr(void)
{
	const char *readable = need("readable");
	struct mount_attr attributes = { .attr_clr = MOUNT_ATTR_RDONLY };
	if (syscall(SYS_mount_setattr, AT_FDCWD, readable, 0, &attributes, sizeof attributes))
		return refused("mount_setattr");
	return write_nonce(PATH_OF("%s/planted", readable));
}

int attack_remount(void)
{
	const char *readable = need("readable");
	if (mount(NULL, readable, NULL, MS_REMOUNT | MS_BIND, NULL))
		return refused("remount");
	return write_nonce(PATH_OF("%s/planted", readable));
}

/* A mount hides a secret below it: take the mount away. */
int attack_umount(void)
{
	const char *masked = PATH_OF("%s/masked", need("readable"));
	if (umount2(masked, MNT_DETACH))
		return refused("umount2");
	return spill_path(PATH_OF("%s/secret", masked));
}

int attack_pivot_root(void)
{
	/* Without mounts of its own the throwaway sandbox would pivot too. */
	if (own_mounts() && geteuid() == 0)
		return refused("unshare");
	if (mount(nonce(), "/tmp", "tmpfs", 0, NULL))
		return refused("mount");
	mkdir("/tmp/old", 0700);
	return syscall(SYS_pivot_root, "/tmp", "/tmp/old") ? refused("pivot_root") : held();
}

int attack_chroot(void)
{
	lingering_child();
	if (chroot("/tmp") && (unshare(CLONE_NEWUSER) || chroot("/tmp")))
		return refused("chroot");
	return held();
}
