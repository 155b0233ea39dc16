/* `files WHAT`: calls on open files. Prints what differs from what must be, and nothing otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static __wasi_fd_t open_file(const char *path, int oflags, __wasi_rights_t rights, int fdflags)
{
	__wasi_fd_t fd = 0;
	expect(path, __wasi_path_open(FOLDER, 0, path, oflags, rights, 0, fdflags, &fd), 0);
	return fd;
}

static __wasi_size_t put(__wasi_fd_t fd, const char *text)
{
	__wasi_ciovec_t part = { (const uint8_t *)text, strlen(text) };
	__wasi_size_t count = 0;
	expect("write", __wasi_fd_write(fd, &part, 1, &count), 0);
	return count;
}

static void expect_text(__wasi_fd_t fd, __wasi_filesize_t offset, const char *text)
{
	uint8_t buffer[256] = { 0 };
	__wasi_iovec_t part = { buffer, sizeof buffer };
	__wasi_size_t count = 0;
	expect("pread", __wasi_fd_pread(fd, &part, 1, offset, &count), 0);
	if (count != strlen(text) || memcmp(buffer, text, count)) {
		printf("'%.*s', not '%s'\n", (int)count, (char *)buffer, text);
		failures++;
	}
}

#define EVERYTHING ((1ull << 30) - 1)
#define NEW (__WASI_OFLAGS_CREAT | __WASI_OFLAGS_EXCL)

static void positions(void)
{
	__wasi_fd_t fd = open_file("positions", NEW, EVERYTHING, 0);
	__wasi_filesize_t at;
	expect("bytes", put(fd, "0123456789"), 10);
	expect("tell", __wasi_fd_tell(fd, &at), 0);
	expect("end", at, 10);
	expect("seek", __wasi_fd_seek(fd, -3, __WASI_WHENCE_CUR, &at), 0);
	expect("back", at, 7);
	expect("seek", __wasi_fd_seek(fd, -10, __WASI_WHENCE_END, &at), 0);
	expect("begin", at, 0);
	expect("before begin", __wasi_fd_seek(fd, -1, __WASI_WHENCE_SET, &at), __WASI_ERRNO_INVAL);
	expect("before begin", __wasi_fd_seek(fd, -1, __WASI_WHENCE_CUR, &at), __WASI_ERRNO_INVAL);
	expect("whence", __wasi_fd_seek(fd, 0, 3, &at), __WASI_ERRNO_INVAL);
	__wasi_ciovec_t part = { (const uint8_t *)"ab", 2 };
	__wasi_size_t count;
	expect("pwrite", __wasi_fd_pwrite(fd, &part, 1, 4, &count), 0);
	expect_text(fd, 0, "0123ab6789");
	expect_text(fd, 10, "");
	expect("negative", __wasi_fd_pwrite(fd, &part, 1, 1ull << 63, &count), __WASI_ERRNO_INVAL);
	expect("tell", __wasi_fd_tell(fd, &at), 0);
	expect("unmoved", at, 0);
}

/* 1024 parts of one byte each, and one more than that. */
static void many_parts(void)
{
	static uint8_t bytes[1025], back[1025];
	static __wasi_ciovec_t out[1025];
	static __wasi_iovec_t in[1025];
	__wasi_fd_t fd = open_file("many", NEW, EVERYTHING, 0);
	__wasi_size_t count;
	for (int at = 0; at < 1025; at++) {
		bytes[at] = at * 7;
		out[at] = (__wasi_ciovec_t){ bytes + at, 1 };
		in[at] = (__wasi_iovec_t){ back + 1023 - at, 1 };
	}
	expect("too many", __wasi_fd_write(fd, out, 1025, &count), __WASI_ERRNO_INVAL);
	expect("parts", __wasi_fd_write(fd, out, 1024, &count), 0);
	expect("written", count, 1024);
	expect("parts", __wasi_fd_pread(fd, in, 1024, 0, &count), 0);
	expect("read", count, 1024);
	for (int at = 0; at < 1024; at++)
		expect("byte", back[1023 - at], bytes[at]);
	expect("none", __wasi_fd_write(fd, out, 0, &count), 0);
	expect("nothing", count, 0);
}

static void sizes_and_times(void)
{
	__wasi_fd_t fd = open_file("sizes", NEW, EVERYTHING, 0);
	__wasi_filestat_t stat;
	expect("bytes", put(fd, "0123456789"), 10);
	expect("truncate", __wasi_fd_filestat_set_size(fd, 4), 0);
	expect_text(fd, 0, "0123");
	expect("negative", __wasi_fd_filestat_set_size(fd, 1ull << 63), __WASI_ERRNO_INVAL);
	expect("allocate", __wasi_fd_allocate(fd, 0, 100), 0);
	expect("advise", __wasi_fd_advise(fd, 0, 0, __WASI_ADVICE_WILLNEED), 0);
	expect("advice", __wasi_fd_advise(fd, 0, 0, 6), __WASI_ERRNO_INVAL);
	expect("sync", __wasi_fd_sync(fd), 0);
	expect("datasync", __wasi_fd_datasync(fd), 0);
	int both = __WASI_FSTFLAGS_ATIM | __WASI_FSTFLAGS_MTIM;
	expect("times", __wasi_fd_filestat_set_times(fd, 1000000001, 2000000002, both), 0);
	expect("stat", __wasi_fd_filestat_get(fd, &stat), 0);
	expect("type", stat.filetype, __WASI_FILETYPE_REGULAR_FILE);
	expect("size", stat.size, 100);
	expect("links", stat.nlink, 1);
	expect("accessed", stat.atim, 1000000001);
	expect("modified", stat.mtim, 2000000002);
	expect("now", __wasi_fd_filestat_set_times(fd, 0, 0, __WASI_FSTFLAGS_MTIM_NOW), 0);
	expect("stat", __wasi_fd_filestat_get(fd, &stat), 0);
	expect("unchanged", stat.atim, 1000000001);
	expect("recent", stat.mtim > 1000000000000000000, 1);
	int neither = __WASI_FSTFLAGS_MTIM | __WASI_FSTFLAGS_MTIM_NOW;
	expect("contradiction", __wasi_fd_filestat_set_times(fd, 0, 0, neither), __WASI_ERRNO_INVAL);
}

static void flags(void)
{
	__wasi_fd_t fd = open_file("flags", NEW, EVERYTHING, __WASI_FDFLAGS_APPEND);
	__wasi_fdstat_t stat;
	__wasi_filesize_t at;
	expect("bytes", put(fd, "one"), 3);
	expect("seek", __wasi_fd_seek(fd, 0, __WASI_WHENCE_SET, &at), 0);
	expect("bytes", put(fd, "two"), 3);
	expect_text(fd, 0, "onetwo");
	expect("fdstat", __wasi_fd_fdstat_get(fd, &stat), 0);
	expect("append", stat.fs_flags, __WASI_FDFLAGS_APPEND);
	expect("type", stat.fs_filetype, __WASI_FILETYPE_REGULAR_FILE);
	expect("set", __wasi_fd_fdstat_set_flags(fd, 0), 0);
	expect("fdstat", __wasi_fd_fdstat_get(fd, &stat), 0);
	expect("no append", stat.fs_flags, 0);
	expect("seek", __wasi_fd_seek(fd, 0, __WASI_WHENCE_SET, &at), 0);
	expect("bytes", put(fd, "THREE"), 5);
	expect_text(fd, 0, "THREEo");
	expect("unknown", __wasi_fd_fdstat_set_flags(fd, 32), __WASI_ERRNO_INVAL);
	fd = open_file("synchronous", NEW, EVERYTHING, __WASI_FDFLAGS_DSYNC | __WASI_FDFLAGS_NONBLOCK);
	expect("fdstat", __wasi_fd_fdstat_get(fd, &stat), 0);
	expect("dsync", stat.fs_flags, __WASI_FDFLAGS_DSYNC | __WASI_FDFLAGS_NONBLOCK);
}

/* Descriptors are the lowest that are free; `words[2]` says how many there may be. */
static void numbers(int most)
{
	__wasi_fd_t fd, last = FOLDER;
	__wasi_errno_t error;
	while (!(error = __wasi_path_open(FOLDER, 0, ".", 0, 0, 0, 0, &fd))) {
		expect("next", fd, last + 1);
		last = fd;
	}
	expect("no more", error, __WASI_ERRNO_MFILE);
	expect("last", last, most - 1);
	expect("not made", __wasi_path_open(FOLDER, 0, "made", NEW, 0, 0, 0, &fd), __WASI_ERRNO_MFILE);
	expect("beyond", __wasi_fd_renumber(FOLDER, most), __WASI_ERRNO_BADF);
	expect("itself", __wasi_fd_renumber(5, 5), 0);
	expect("over another", __wasi_fd_renumber(5, 4), 0);
	expect("gone", __wasi_fd_close(5), __WASI_ERRNO_BADF);
	expect("onto a closed one", __wasi_fd_renumber(4, 5), __WASI_ERRNO_BADF);
	expect("from a closed one", __wasi_fd_renumber(5, 4), __WASI_ERRNO_BADF);
	expect("open", __wasi_path_open(FOLDER, 0, ".", 0, 0, 0, 0, &fd), 0);
	expect("lowest", fd, 5);
	expect("close", __wasi_fd_close(4), 0);
	expect("twice", __wasi_fd_close(4), __WASI_ERRNO_BADF);
	expect("huge", __wasi_fd_close(~0u), __WASI_ERRNO_BADF);
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	if (!strcmp(what, "positions")) positions();
	else if (!strcmp(what, "many-parts")) many_parts();
	else if (!strcmp(what, "sizes-and-times")) sizes_and_times();
	else if (!strcmp(what, "flags")) flags();
	else if (!strcmp(what, "numbers")) numbers(atoi(words[2]));
	else return 99;
	return failures != 0;
}
