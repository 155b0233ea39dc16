/*
 * What every probe shares.
 *
 *   portable PROBE ARGUMENT…
 *
 * A probe makes calls that POSIX and WASI both have, and prints one line for each: `CALL: ok`,
 * `CALL: ERRNO` or `CALL: VALUE`. Native and as WebAssembly it is the same source, so two walls
 * that keep one policy make it print the same lines.
 */
#ifndef PORTABLE_H
#define PORTABLE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* `CALL: ok`, or the name of errno if `result` is negative; gives `result` back. */
long says(const char *call, long result);
/* The same for calls that return an error number. */
void says_error(const char *call, int error);
/* `CALL: VALUE` with printf arguments. */
void tells(const char *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The argument at `index` behind the probe's name; without it the guest ends with 2. */
const char *word(int index);
int words(void);

/* `FOLDER/NAME` in a buffer of its own, good until eight more are made. */
const char *in(const char *folder, const char *name);
/* Opens, says so, and closes. */
void opens(const char *call, const char *path, int flags);
/* `CALL: KIND SIZE` of a path, its last link followed or not. */
void looks(const char *call, const char *path, bool follow);

#endif
