/* The multi-call program, and how a probe prints. */
#include "portable.h"

#include <stdarg.h>

#define GO_PROBE(name)
#define PROBE(name) void probe_##name(void);
#include "probes.def"
#undef PROBE

static const struct {
	const char *name;
	void (*run)(void);
} table[] = {
#define PROBE(name) { #name, probe_##name },
#include "probes.def"
};

/* Both libraries number errors in their own way; the names are the same. */
#define NAME(error) { error, #error }
static const struct {
	int number;
	const char *name;
} errors[] = {
	NAME(E2BIG),   NAME(EACCES),  NAME(EADDRINUSE), NAME(EAFNOSUPPORT), NAME(EAGAIN),     NAME(EBADF),
	NAME(EBUSY),   NAME(ECHILD),  NAME(ECONNREFUSED), NAME(ECONNRESET), NAME(EDQUOT),     NAME(EEXIST),
	NAME(EFAULT),  NAME(EFBIG),   NAME(EILSEQ),     NAME(EINTR),        NAME(EINVAL),     NAME(EIO),
	NAME(EISDIR),  NAME(ELOOP),   NAME(EMFILE),     NAME(EMLINK),       NAME(ENAMETOOLONG), NAME(ENETUNREACH),
	NAME(ENFILE),  NAME(ENODEV),  NAME(ENOENT),     NAME(ENOMEM),       NAME(ENOSPC),     NAME(ENOSYS),
	NAME(ENOTCONN), NAME(ENOTDIR), NAME(ENOTEMPTY), NAME(ENOTSOCK),     NAME(ENOTSUP),    NAME(ENOTTY),
	NAME(ENXIO),   NAME(EOVERFLOW), NAME(EPERM),    NAME(EPIPE),        NAME(EROFS),      NAME(ESPIPE),
	NAME(ETXTBSY), NAME(EXDEV),
#ifdef ENOTCAPABLE
	NAME(ENOTCAPABLE),
#endif
};

static int argument_count;
static char **arguments;

static const char *error_name(int number)
{
	static char unknown[32];
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (errors[i].number == number)
			return errors[i].name;
	snprintf(unknown, sizeof unknown, "error %d", number);
	return unknown;
}

long says(const char *call, long result)
{
	printf("%s: %s\n", call, result < 0 ? error_name(errno) : "ok");
	return result;
}

void says_error(const char *call, int error)
{
	printf("%s: %s\n", call, error ? error_name(error) : "ok");
}

void tells(const char *call, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	printf("%s: ", call);
	vprintf(format, values);
	putchar('\n');
	va_end(values);
}

int words(void)
{
	return argument_count - 2;
}

const char *word(int index)
{
	if (index < words())
		return arguments[index + 2];
	fprintf(stderr, "portable: %s wants more than %d arguments\n", arguments[1], words());
	exit(2);
}

const char *in(const char *folder, const char *name)
{
	enum { KEPT = 8 };
	static char paths[KEPT][PATH_MAX];
	static int next;
	char *path = paths[next++ % KEPT];
	snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return path;
}

void opens(const char *call, const char *path, int flags)
{
	int fd = (int)says(call, open(path, flags, 0644));
	if (fd >= 0)
		close(fd);
}

static const char *kind(mode_t mode)
{
	return S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : S_ISREG(mode) ? "file" : S_ISCHR(mode) ? "device" : "other";
}

void looks(const char *call, const char *path, bool follow)
{
	struct stat about;
	if ((follow ? stat : lstat)(path, &about) < 0)
		says(call, -1);
	else if (S_ISREG(about.st_mode) || S_ISLNK(about.st_mode))
		tells(call, "%s %lld", kind(about.st_mode), (long long)about.st_size);
	else
		tells(call, "%s", kind(about.st_mode));
}

int main(int count, char **given)
{
	argument_count = count;
	arguments = given;
	for (size_t i = 0; count > 1 && i < sizeof table / sizeof *table; i++)
		if (!strcmp(given[1], table[i].name)) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			table[i].run();
			return 0;
		}
	fprintf(stderr, "usage: portable PROBE ARGUMENT…\n");
	return 2;
}
