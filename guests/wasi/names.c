/* `names OPERATION…`: calls on names below the first folder, as the interface has them, one line of result each.
 * An operation is `call:word:…`; the result is `ok`, `ok TEXT` or the error's number. */
#include <stdio.h>
#include <string.h>
#include <wasi/api.h>

#define FOLDER 3
#define FOLLOW __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW
#define WORDS 4

static char text[4096];

static __wasi_errno_t open_at(const char *path, int follow, int oflags, __wasi_rights_t rights, __wasi_fd_t *fd)
{
	return __wasi_path_open(FOLDER, follow ? FOLLOW : 0, path, oflags, rights, 0, 0, fd);
}

static __wasi_errno_t close_after(__wasi_errno_t error, __wasi_fd_t fd)
{
	return error ? error : __wasi_fd_close(fd);
}

static __wasi_errno_t read_file(const char *path, int follow)
{
	__wasi_fd_t fd;
	__wasi_errno_t error = open_at(path, follow, 0, __WASI_RIGHTS_FD_READ, &fd);
	if (error)
		return error;
	__wasi_iovec_t part = { (uint8_t *)text, sizeof text - 1 };
	__wasi_size_t count = 0;
	error = __wasi_fd_read(fd, &part, 1, &count);
	text[count] = 0;
	return close_after(error, fd);
}

static __wasi_errno_t write_file(const char *path, const char *bytes, int oflags)
{
	__wasi_fd_t fd;
	__wasi_errno_t error = open_at(path, 1, oflags, __WASI_RIGHTS_FD_WRITE, &fd);
	if (error)
		return error;
	__wasi_ciovec_t part = { (const uint8_t *)bytes, strlen(bytes) };
	__wasi_size_t count;
	return close_after(__wasi_fd_write(fd, &part, 1, &count), fd);
}

static __wasi_errno_t open_only(const char *path, int follow, int oflags)
{
	__wasi_fd_t fd;
	__wasi_errno_t error = open_at(path, follow, oflags, __WASI_RIGHTS_FD_READ, &fd);
	return close_after(error, fd);
}

static __wasi_errno_t stat_at(const char *path, int follow)
{
	__wasi_filestat_t stat;
	__wasi_errno_t error = __wasi_path_filestat_get(FOLDER, follow ? FOLLOW : 0, path, &stat);
	if (!error)
		snprintf(text, sizeof text, "%d %llu", stat.filetype, stat.filetype == 4 ? stat.size : 0);
	return error;
}

static __wasi_errno_t set_times(const char *path, int follow)
{
	__wasi_fstflags_t which = __WASI_FSTFLAGS_ATIM | __WASI_FSTFLAGS_MTIM;
	return __wasi_path_filestat_set_times(FOLDER, follow ? FOLLOW : 0, path, 1500000000, 2500000000, which);
}

static __wasi_errno_t read_link(const char *path)
{
	__wasi_size_t count = 0;
	__wasi_errno_t error = __wasi_path_readlink(FOLDER, path, (uint8_t *)text, sizeof text - 1, &count);
	text[count] = 0;
	return error;
}

static __wasi_errno_t call(char **word)
{
#define IS(name) (!strcmp(word[0], name))
	const char *a = word[1] ? word[1] : "", *b = word[2] ? word[2] : "";
	if (IS("mkdir")) return __wasi_path_create_directory(FOLDER, a);
	if (IS("rmdir")) return __wasi_path_remove_directory(FOLDER, a);
	if (IS("unlink")) return __wasi_path_unlink_file(FOLDER, a);
	if (IS("rename")) return __wasi_path_rename(FOLDER, a, FOLDER, b);
	if (IS("link")) return __wasi_path_link(FOLDER, 0, a, FOLDER, b);
	if (IS("link-followed")) return __wasi_path_link(FOLDER, FOLLOW, a, FOLDER, b);
	if (IS("symlink")) return __wasi_path_symlink(a, FOLDER, b);
	if (IS("readlink")) return read_link(a);
	if (IS("stat")) return stat_at(a, 1);
	if (IS("lstat")) return stat_at(a, 0);
	if (IS("times")) return set_times(a, 1);
	if (IS("ltimes")) return set_times(a, 0);
	if (IS("read")) return read_file(a, 1);
	if (IS("lread")) return read_file(a, 0);
	if (IS("write")) return write_file(a, b, __WASI_OFLAGS_CREAT | __WASI_OFLAGS_TRUNC);
	if (IS("create")) return write_file(a, b, __WASI_OFLAGS_CREAT | __WASI_OFLAGS_EXCL);
	if (IS("overwrite")) return write_file(a, b, 0);
	if (IS("opendir")) return open_only(a, 1, __WASI_OFLAGS_DIRECTORY);
	if (IS("creatdir")) return open_only(a, 1, __WASI_OFLAGS_DIRECTORY | __WASI_OFLAGS_CREAT);
	return __WASI_ERRNO_NOSYS;
}

int main(int count, char **words)
{
	for (int at = 1; at < count; at++) {
		char *word[WORDS] = { 0 }, *rest = words[at];
		for (int part = 0; part < WORDS && rest; part++)
			word[part] = strsep(&rest, ":");
		text[0] = 0;
		__wasi_errno_t error = call(word);
		if (error)
			printf("%d\n", error);
		else
			printf("ok%s%s\n", text[0] ? " " : "", text);
	}
	return 0;
}
