/*
 * What a WASI program has no calls for: modes and owners. Nothing is what a file system without them does, too.
 */
#ifdef __wasi__
#include <sys/stat.h>
#include <unistd.h>

static inline int chmod(const char *path, mode_t mode)
{
	(void)path;
	(void)mode;
	return 0;
}

static inline int fchmod(int file, mode_t mode)
{
	(void)file;
	(void)mode;
	return 0;
}

static inline int chown(const char *path, uid_t owner, gid_t group)
{
	(void)path;
	(void)owner;
	(void)group;
	return 0;
}

static inline int fchown(int file, uid_t owner, gid_t group)
{
	(void)file;
	(void)owner;
	(void)group;
	return 0;
}
#endif
