/*
 * Files and folders: the same calls at every place that a policy can make.
 *
 *   reading PLACE       PLACE holds what the suite lays: file, link, dangling, up, sub/inner, empty/
 *   moving PLACE OTHER  OTHER is a folder that is granted for writing, with a file of its own
 */
#include "portable.h"

static const char text[] = "written\n";

/* What is left of a file from where the descriptor stands, its line ends shown. */
static void contents(const char *call, int fd)
{
	char bytes[256];
	ssize_t length = read(fd, bytes, sizeof bytes - 1);
	if (length < 0) {
		says(call, -1);
		return;
	}
	bytes[length] = 0;
	for (char *end; (end = strchr(bytes, '\n'));)
		*end = '|';
	tells(call, "%s", bytes);
}

static void seeks(int fd)
{
	tells("seek to 3", "%lld", (long long)lseek(fd, 3, SEEK_SET));
	tells("seek on by 2", "%lld", (long long)lseek(fd, 2, SEEK_CUR));
	tells("seek before the end", "%lld", (long long)lseek(fd, -1, SEEK_END));
	says("seek before the start", lseek(fd, -100, SEEK_SET));
	tells("seek past the end", "%lld", (long long)lseek(fd, 1000, SEEK_SET));
	contents("read past the end", fd);
}

static void reads_by_position(int fd)
{
	char bytes[5] = "", more[5] = "";
	struct iovec parts[] = { { bytes, 4 }, { more, 4 } };
	says("pread", pread(fd, bytes, 4, 4));
	tells("pread gave", "%s", bytes);
	lseek(fd, 0, SEEK_SET);
	tells("readv", "%ld", (long)readv(fd, parts, 2));
	tells("readv gave", "%s,%s", bytes, more);
}

void probe_reading(void)
{
	const char *place = word(0);
	char target[64] = "";
	looks("stat file", in(place, "file"), true);
	looks("lstat link", in(place, "link"), false);
	looks("stat link", in(place, "link"), true);
	looks("stat dangling", in(place, "dangling"), true);
	looks("lstat dangling", in(place, "dangling"), false);
	looks("stat up", in(place, "up"), true);
	looks("stat the place", place, true);
	if (says("readlink", readlink(in(place, "link"), target, sizeof target - 1)) >= 0)
		tells("readlink gave", "%s", target);
	says("readlink of a file", readlink(in(place, "file"), target, sizeof target - 1));
	opens("open link", in(place, "link"), O_RDONLY);
	opens("open link itself", in(place, "link"), O_RDONLY | O_NOFOLLOW);
	opens("open dangling", in(place, "dangling"), O_RDONLY);
	opens("open inner", in(place, "sub/inner"), O_RDONLY);
	opens("open missing", in(place, "missing"), O_RDONLY);
	opens("open below missing", in(place, "missing/file"), O_RDONLY);
	int fd = (int)says("open", open(in(place, "file"), O_RDONLY));
	if (fd < 0)
		return;
	contents("read", fd);
	contents("read at the end", fd);
	says("write what is open for reading", write(fd, text, 1));
	says("ftruncate what is open for reading", ftruncate(fd, 0));
	seeks(fd);
	reads_by_position(fd);
	says("fsync", fsync(fd));
	says_error("fadvise", posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	says("close", close(fd));
	says("close again", close(fd));
	says("read what is closed", read(fd, target, 1));
}

/* ---- folders ---- */

static int by_name(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

static const char *entry_kind(int type)
{
	return type == DT_DIR ? "/" : type == DT_LNK ? "@" : type == DT_REG ? "" : "?";
}

static void lists(const char *call, DIR *folder)
{
	enum { MOST = 64 };
	static char names[MOST][NAME_MAX + 2];
	char *sorted[MOST];
	int count = 0;
	for (struct dirent *entry; count < MOST && (entry = readdir(folder));) {
		snprintf(names[count], sizeof *names, "%.*s%s", NAME_MAX, entry->d_name, entry_kind(entry->d_type));
		sorted[count] = names[count];
		count++;
	}
	qsort(sorted, count, sizeof *sorted, by_name);
	printf("%s:", call);
	for (int i = 0; i < count; i++)
		printf(" %s", sorted[i]);
	putchar('\n');
}

static void lists_path(const char *call, const char *path)
{
	DIR *folder = opendir(path);
	if (!folder) {
		says(call, -1);
		return;
	}
	lists(call, folder);
	rewinddir(folder);
	lists("list again", folder);
	closedir(folder);
}

static void opens_below(const char *call, int folder, const char *path)
{
	int fd = (int)says(call, openat(folder, path, O_RDONLY));
	if (fd >= 0)
		close(fd);
}

void probe_folders(void)
{
	const char *place = word(0);
	char byte;
	lists_path("list", place);
	lists_path("list sub", in(place, "sub"));
	lists_path("list a file", in(place, "file"));
	opens("open a folder to write", in(place, "sub"), O_WRONLY);
	opens("open a file as a folder", in(place, "file"), O_RDONLY | O_DIRECTORY);
	int folder = (int)says("open a folder", open(in(place, "sub"), O_RDONLY | O_DIRECTORY));
	if (folder < 0)
		return;
	says("read a folder", read(folder, &byte, 1));
	opens_below("open below it", folder, "inner");
	opens_below("open above it", folder, "../file");
	opens_below("open far above it", folder, "../../../../../../../../../../etc/ld.so.cache");
	opens_below("open the root from it", folder, "/");
	says("fsync a folder", fsync(folder));
	close(folder);
}

static bool has_entry(const char *path, const char *name)
{
	DIR *folder = opendir(path);
	bool found = false;
	for (struct dirent *entry; folder && (entry = readdir(folder));)
		found |= !strcmp(entry->d_name, name);
	if (folder)
		closedir(folder);
	return found;
}

/* The folder that all absolute paths begin in. */
void probe_root(void)
{
	looks("stat /", "/", true);
	opens("open /", "/", O_RDONLY | O_DIRECTORY);
	tells("/usr is listed", "%s", has_entry("/", "usr") ? "yes" : "no");
	looks("stat /usr", "/usr", true);
	looks("stat /usr/..", "/usr/..", true);
	looks("stat //usr", "//usr", true);
	looks("stat /./usr", "/./usr", true);
	looks("stat /missing", "/missing", true);
	opens("create /new", "/new", O_WRONLY | O_CREAT);
	says("mkdir /folder", mkdir("/folder", 0755));
	says("rmdir /usr", rmdir("/usr"));
	says("rmdir /", rmdir("/"));
}

/* ---- what changes a file ---- */

static void size_is(const char *call, int fd)
{
	struct stat about;
	if (fstat(fd, &about) < 0)
		says(call, -1);
	else
		tells(call, "%lld", (long long)about.st_size);
}

static void appends(const char *path)
{
	int fd = (int)says("open to append", open(path, O_WRONLY | O_APPEND));
	if (fd < 0)
		return;
	says("append", write(fd, text, strlen(text)));
	says("seek to the start", lseek(fd, 0, SEEK_SET));
	says("append all the same", write(fd, text, strlen(text)));
	size_is("size when appended", fd);
	says("read what is open for writing", read(fd, (char[1]){ 0 }, 1));
	close(fd);
}

static void overwrites(const char *path)
{
	struct iovec parts[] = { { (char *)text, 2 }, { (char *)text, 3 } };
	int fd = (int)says("open to read and write", open(path, O_RDWR));
	if (fd < 0)
		return;
	says("write", write(fd, text, strlen(text)));
	says("pwrite", pwrite(fd, text, 2, 20));
	tells("writev", "%ld", (long)writev(fd, parts, 2));
	says("ftruncate shorter", ftruncate(fd, 10));
	says("ftruncate longer", ftruncate(fd, 30));
	says("ftruncate below nothing", ftruncate(fd, -1));
	says_error("fallocate", posix_fallocate(fd, 0, 40));
	says("fdatasync", fdatasync(fd));
	size_is("size", fd);
	lseek(fd, 0, SEEK_SET);
	char bytes[8] = "";
	tells("read back", "%ld", (long)read(fd, bytes, 7));
	tells("read back gave", "%s", bytes);
	says("flags", fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
	tells("flags are", "%d %d", !!(fcntl(fd, F_GETFL) & O_APPEND), !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	close(fd);
}

static void dates(const char *path, const char *link)
{
	struct timespec times[] = { { 1000000000, 5000 }, { 1100000000, 7000 } };
	struct timespec half[] = { { 0, UTIME_OMIT }, { 1200000000, 0 } };
	struct stat about;
	says("utimensat", utimensat(AT_FDCWD, path, times, 0));
	if (stat(path, &about) == 0 && about.st_mtim.tv_sec == 1100000000)
		tells("times", "%lld.%ld %lld.%ld", (long long)about.st_atim.tv_sec, about.st_atim.tv_nsec,
		      (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
	says("utimensat one time", utimensat(AT_FDCWD, path, half, 0));
	says("utimensat of a link", utimensat(AT_FDCWD, link, times, AT_SYMLINK_NOFOLLOW));
}

void probe_writing(void)
{
	const char *file = in(word(0), "file");
	appends(file);
	overwrites(file);
	dates(file, in(word(0), "link"));
	opens("truncate by opening", in(word(0), "sub/inner"), O_WRONLY | O_TRUNC);
	looks("stat what is truncated", in(word(0), "sub/inner"), true);
	opens("write through a link", in(word(0), "link"), O_WRONLY);
}

/* ---- what makes names ---- */

void probe_making(void)
{
	const char *place = word(0);
	opens("create", in(place, "new"), O_WRONLY | O_CREAT | O_EXCL);
	opens("create again", in(place, "new"), O_WRONLY | O_CREAT | O_EXCL);
	opens("create or open", in(place, "file"), O_WRONLY | O_CREAT);
	opens("create through a dangling link", in(place, "dangling"), O_WRONLY | O_CREAT);
	opens("create at a dangling link", in(place, "dangling"), O_WRONLY | O_CREAT | O_EXCL);
	opens("create below a file", in(place, "file/new"), O_WRONLY | O_CREAT);
	opens("create below missing", in(place, "missing/new"), O_WRONLY | O_CREAT);
	opens("create a folder by opening", in(place, "new-folder"), O_RDONLY | O_CREAT | O_DIRECTORY);
	opens("create in sub", in(place, "sub/new"), O_WRONLY | O_CREAT);
	says("mkdir", mkdir(in(place, "folder"), 0755));
	says("mkdir again", mkdir(in(place, "folder"), 0755));
	says("mkdir below missing", mkdir(in(place, "missing/folder"), 0755));
	says("mkdir at a file", mkdir(in(place, "file"), 0755));
	says("symlink", symlink("file", in(place, "new-link")));
	says("symlink again", symlink("file", in(place, "new-link")));
	looks("lstat symlink", in(place, "new-link"), false);
	looks("stat symlink", in(place, "new-link"), true);
	says("symlink out by name", symlink("../../hidden", in(place, "out-link")));
	looks("stat through it", in(place, "out-link"), true);
	says("link", link(in(place, "file"), in(place, "new-name")));
	says("link a link", link(in(place, "link"), in(place, "link-name")));
	looks("lstat linked link", in(place, "link-name"), false);
	says("link a folder", link(in(place, "sub"), in(place, "sub-name")));
	says("link again", link(in(place, "file"), in(place, "new-name")));
}

/* ---- what takes names away ---- */

void probe_removing(void)
{
	const char *place = word(0);
	says("rmdir a file", rmdir(in(place, "file")));
	says("unlink a folder", unlink(in(place, "empty")));
	says("rmdir what is not empty", rmdir(in(place, "sub")));
	says("rmdir a link", rmdir(in(place, "up")));
	says("unlink missing", unlink(in(place, "missing")));
	says("rmdir missing", rmdir(in(place, "missing")));
	says("unlink below a file", unlink(in(place, "file/x")));
	says("unlink a link", unlink(in(place, "link")));
	says("unlink a dangling link", unlink(in(place, "dangling")));
	says("unlink", unlink(in(place, "file")));
	says("unlink again", unlink(in(place, "file")));
	says("rmdir", rmdir(in(place, "empty")));
	says("rmdir again", rmdir(in(place, "empty")));
	says("rmdir the place", rmdir(place));
	says("remove", remove(in(place, "sub/inner")));
	says("remove what is empty now", remove(in(place, "sub")));
}

/* ---- what moves names ---- */

void probe_moving(void)
{
	const char *place = word(0), *other = word(1);
	says("link in", link(in(other, "file"), in(place, "linked")));
	says("link out", link(in(place, "file"), in(other, "linked")));
	says("rename in", rename(in(other, "sub/inner"), in(place, "moved")));
	says("rename over a folder", rename(in(place, "link"), in(place, "empty")));
	says("rename a folder over a file", rename(in(place, "empty"), in(place, "file")));
	says("rename a folder below itself", rename(in(place, "sub"), in(place, "sub/below")));
	says("rename missing", rename(in(place, "missing"), in(place, "found")));
	says("rename below missing", rename(in(place, "file"), in(place, "missing/file")));
	says("rename to itself", rename(in(place, "file"), in(place, "file")));
	says("rename a link", rename(in(place, "link"), in(place, "renamed-link")));
	says("rename", rename(in(place, "file"), in(place, "renamed")));
	says("rename again", rename(in(place, "file"), in(place, "renamed")));
	says("rename over what is full", rename(in(place, "empty"), in(place, "sub")));
	says("rename a folder", rename(in(place, "sub"), in(place, "folder")));
	says("rename a folder over an empty one", rename(in(place, "folder"), in(place, "empty")));
	says("rename out", rename(in(place, "renamed"), in(other, "gone")));
	says("rename the place", rename(place, in(other, "place")));
}

/* ---- how a path is spelt ---- */

void probe_spelling(void)
{
	const char *place = word(0);
	char name[300];
	opens("open file/", in(place, "file/"), O_RDONLY);
	opens("open file/.", in(place, "file/."), O_RDONLY);
	opens("open file/..", in(place, "file/.."), O_RDONLY);
	opens("open sub/", in(place, "sub/"), O_RDONLY);
	opens("open sub//inner", in(place, "sub//inner"), O_RDONLY);
	opens("open ./sub/./inner", in(place, "./sub/./inner"), O_RDONLY);
	opens("open sub/../file", in(place, "sub/../file"), O_RDONLY);
	opens("open missing/../file", in(place, "missing/../file"), O_RDONLY);
	opens("open up/", in(place, "up/"), O_RDONLY);
	opens("create new/", in(place, "new/"), O_WRONLY | O_CREAT);
	looks("stat file/", in(place, "file/"), true);
	looks("lstat up/", in(place, "up/"), false);
	looks("stat nothing", "", true);
	opens("open nothing", "", O_RDONLY);
	says("unlink file/", unlink(in(place, "file/")));
	says("unlink link/", unlink(in(place, "link/")));
	says("rmdir up/", rmdir(in(place, "up/")));
	says("rmdir empty/.", rmdir(in(place, "empty/.")));
	says("rmdir empty/..", rmdir(in(place, "empty/..")));
	says("mkdir folder/", mkdir(in(place, "folder/"), 0755));
	says("mkdir ..", mkdir(in(place, ".."), 0755));
	says("rename file to new/", rename(in(place, "file"), in(place, "new/")));
	says("rename sub/ to other/", rename(in(place, "sub/"), in(place, "other/")));
	says("rename empty to ..", rename(in(place, "empty"), in(place, "..")));
	says("symlink at new-link/", symlink("file", in(place, "new-link/")));
	says("link to new-name/", link(in(place, "file"), in(place, "new-name/")));
	says("rmdir empty/", rmdir(in(place, "empty/")));
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	opens("open a long name", in(place, name), O_RDONLY);
	says("mkdir a long name", mkdir(in(place, name), 0755));
	opens("open a name that is no text", in(place, "\xff\xfe"), O_RDONLY);
	opens("open a name with a line end", in(place, "a\nb"), O_RDONLY);
}
