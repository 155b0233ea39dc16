/* `rights`: what a descriptor may not be used for. Prints what differs from what must be, and nothing otherwise. */
#include <stdio.h>
#include <wasi/api.h>

#define FOLDER 3

static int failures;

static void expect(const char *what, unsigned long long is, unsigned long long must)
{
	if (is != must) {
		printf("%s: %llu, not %llu\n", what, is, must);
		failures++;
	}
}

static uint8_t byte = 'x';
static __wasi_iovec_t in = { &byte, 1 };
static __wasi_ciovec_t out = { &byte, 1 };
static __wasi_size_t count;
static __wasi_fd_t fd;

static void of_files(void)
{
	__wasi_rights_t reads = __WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_SYNC, writes = __WASI_RIGHTS_FD_WRITE;
	expect("open", __wasi_path_open(FOLDER, 0, "file", 0, reads, 0, 0, &fd), 0);
	expect("read", __wasi_fd_read(fd, &in, 1, &count), 0);
	expect("write", __wasi_fd_write(fd, &out, 1, &count), __WASI_ERRNO_BADF);
	expect("pwrite", __wasi_fd_pwrite(fd, &out, 1, 0, &count), __WASI_ERRNO_BADF);
	expect("truncate", __wasi_fd_filestat_set_size(fd, 0), __WASI_ERRNO_INVAL);
	expect("allocate", __wasi_fd_allocate(fd, 0, 9), __WASI_ERRNO_BADF);
	expect("datasync", __wasi_fd_datasync(fd), 0);
	__wasi_filesize_t at;
	expect("seek", __wasi_fd_seek(fd, 0, __WASI_WHENCE_SET, &at), __WASI_ERRNO_NOTCAPABLE);
	expect("times", __wasi_fd_filestat_set_times(fd, 0, 0, __WASI_FSTFLAGS_MTIM_NOW), __WASI_ERRNO_NOTCAPABLE);
	expect("readdir", __wasi_fd_readdir(fd, &byte, 1, 0, &count), __WASI_ERRNO_NOTDIR);
	expect("more", __wasi_fd_fdstat_set_rights(fd, reads | writes, 0), __WASI_ERRNO_NOTCAPABLE);
	expect("less", __wasi_fd_fdstat_set_rights(fd, __WASI_RIGHTS_FD_SYNC, 0), 0);
	expect("read", __wasi_fd_read(fd, &in, 1, &count), __WASI_ERRNO_BADF);
	expect("again", __wasi_fd_fdstat_set_rights(fd, reads, 0), __WASI_ERRNO_NOTCAPABLE);
	expect("open", __wasi_path_open(FOLDER, 0, "file", 0, writes, 0, 0, &fd), 0);
	expect("read", __wasi_fd_read(fd, &in, 1, &count), __WASI_ERRNO_BADF);
	expect("write", __wasi_fd_write(fd, &out, 1, &count), 0);
}

static void of_folders(void)
{
	__wasi_rights_t looks = __WASI_RIGHTS_PATH_OPEN | __WASI_RIGHTS_FD_READDIR;
	__wasi_rights_t reads = __WASI_RIGHTS_FD_READ;
	__wasi_fdstat_t stat;
	expect("stat", __wasi_fd_fdstat_get(FOLDER, &stat), 0);
	expect("no bytes", stat.fs_rights_base & (__WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_WRITE), 0);
	expect("less", __wasi_fd_fdstat_set_rights(FOLDER, looks, reads), 0);
	expect("open", __wasi_path_open(FOLDER, 0, "file", 0, reads, 0, 0, &fd), 0);
	expect("to write", __wasi_path_open(FOLDER, 0, "file", 0, __WASI_RIGHTS_FD_WRITE, 0, 0, &fd), __WASI_ERRNO_NOTCAPABLE);
	expect("create", __wasi_path_open(FOLDER, 0, "new", __WASI_OFLAGS_CREAT, reads, 0, 0, &fd), __WASI_ERRNO_NOTCAPABLE);
	expect("truncate", __wasi_path_open(FOLDER, 0, "file", __WASI_OFLAGS_TRUNC, reads, 0, 0, &fd), __WASI_ERRNO_NOTCAPABLE);
	expect("mkdir", __wasi_path_create_directory(FOLDER, "new"), __WASI_ERRNO_NOTCAPABLE);
	expect("rmdir", __wasi_path_remove_directory(FOLDER, "new"), __WASI_ERRNO_NOTCAPABLE);
	expect("unlink", __wasi_path_unlink_file(FOLDER, "file"), __WASI_ERRNO_NOTCAPABLE);
	expect("rename", __wasi_path_rename(FOLDER, "file", FOLDER, "new"), __WASI_ERRNO_NOTCAPABLE);
	expect("link", __wasi_path_link(FOLDER, 0, "file", FOLDER, "new"), __WASI_ERRNO_NOTCAPABLE);
	expect("symlink", __wasi_path_symlink("file", FOLDER, "new"), __WASI_ERRNO_NOTCAPABLE);
	expect("readlink", __wasi_path_readlink(FOLDER, "file", &byte, 1, &count), __WASI_ERRNO_NOTCAPABLE);
	__wasi_filestat_t filestat;
	expect("stat", __wasi_path_filestat_get(FOLDER, 0, "file", &filestat), __WASI_ERRNO_NOTCAPABLE);
	expect("times", __wasi_path_filestat_set_times(FOLDER, 0, "file", 0, 0, 0), __WASI_ERRNO_NOTCAPABLE);
}

/* A folder that was opened to read in it hands no more than that down. */
static void of_inner_folders(void)
{
	__wasi_rights_t looks = __WASI_RIGHTS_PATH_OPEN | __WASI_RIGHTS_FD_READDIR, reads = __WASI_RIGHTS_FD_READ;
	__wasi_fd_t inner;
	expect("open", __wasi_path_open(FOLDER, 0, ".", __WASI_OFLAGS_DIRECTORY, looks, reads, 0, &inner), 0);
	expect("below", __wasi_path_open(inner, 0, "file", 0, reads, 0, 0, &fd), 0);
	expect("to write", __wasi_path_open(inner, 0, "file", 0, __WASI_RIGHTS_FD_WRITE, 0, 0, &fd), __WASI_ERRNO_NOTCAPABLE);
}

int main(void)
{
	of_files();
	of_inner_folders();
	of_folders();
	return failures != 0;
}
