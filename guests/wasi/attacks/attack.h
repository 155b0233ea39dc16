/*
 * What every attack of a module shares; the protocol is that of guests/hostile/hostile.h.
 *
 *   hostile.wasm ATTACK NONCE KEY=VALUE…
 *
 * An attack on the module's own wall has no way in where that wall is whole. So each ends with the plain act, as a
 * program would do it: that is what succeeds where everything is granted or nothing is around the engine, and shows
 * that there was something to be had.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wasi/api.h>

enum ending {
	DONE = 0,
	REFUSED = 1,
	UNREADY = 99
};

/* Descriptors that may be folders. */
enum { FIRST_FOLDER = 3, LAST_FOLDER = 48 };

const char *argument(const char *key);
const char *need(const char *key);
long need_number(const char *key);
const char *nonce(void);

int refused(const char *call);
_Noreturn void unready(const char *step);
int held(void);

/* Copies what can be read of `fd` to stdout; false if nothing. */
bool spill(int fd);
int spill_path(const char *path);
/* The same by path_open below `folder`, the last link followed or not. */
bool spill_below(int folder, const char *path);
int write_nonce(const char *path);
/* Whether a race has not lasted its time yet; the first call begins it. */
bool race_goes_on(void);

/* A folder that may be written: the scratch folder if it is granted, or /tmp. */
int own_folder(void);
/* Makes a link below `folder`, whatever it says; the one before it goes. */
void make_link(int folder, const char *target, const char *name);
/* path_open with every right asked for; -1 if it is refused. */
int open_below(int folder, const char *path, __wasi_lookupflags_t follow, __wasi_oflags_t how);

/* `format` with printf arguments, in a static buffer of its own per call site. */
#define PATH_OF(...) \
	({ static char path_[PATH_MAX]; snprintf(path_, sizeof path_, __VA_ARGS__); path_; })

#endif
