/*
 * What every attack shares: its arguments, its three ways to end, and the
 * protocol with the witness.
 *
 *   hostile ATTACK NONCE KEY=VALUE…
 *
 * The guest prints `begin NONCE` before the act. Once the act left a trace
 * that only lives as long as the guest does (a descriptor, a namespace), it
 * prints `held` and waits for end-of-file on stdin, so that the witness can
 * look. Its own word counts for nothing: the verdict is the witness's.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum ending {
	DONE = 0,     /* the guest believes that the act worked */
	REFUSED = 1,  /* the kernel or the wall said no; stderr names the errno */
	UNREADY = 99 /* the act was never tried: its preparation failed */
};

/* The value of KEY=VALUE, or NULL. */
const char *argument(const char *key);
/* The same, but a missing one ends the guest as UNREADY. */
const char *need(const char *key);
long need_number(const char *key);
/* The random word that marks this guest and what it leaves behind. */
const char *nonce(void);
/* Where this program lies, as the guest sees it. */
const char *own_path(void);

/* Prints `refused: CALL: ERRNO` and returns REFUSED. */
int refused(const char *call);
/* Prints `unready: STEP: ERRNO` and ends the guest. */
_Noreturn void unready(const char *step);
/* As many descriptors as this user may have, who often begins with 1024. */
void allow_most_descriptors(void);
/* Prints `held` and returns DONE after end-of-file on stdin. */
int held(void);
/* Waits for end-of-file without a word; for the second process of an act. */
_Noreturn void linger(void);
/* A child that lingers and dies with its parent. */
pid_t lingering_child(void);
/* For acts without an outside trace: prints the attestation of guests/README.md. */
int attest(const char *call, long result);

/* Copies what can be read of `fd`, at most 64 KiB, to stdout; false if nothing. */
bool spill(int fd);
/* Opens and spills; REFUSED if it does not open or is empty. */
int spill_path(const char *path);
/* Opens `path` with `flags` and holds the descriptor. */
int hold_path(const char *path, int flags);
/* Writes the nonce into `path`, created if need be. */
int write_nonce(const char *path);
/* Copies this program's ELF (or `from`) to `to` with `mode`. */
bool copy_file(const char *from, const char *to, mode_t mode);
/* Calls `act` on the victim, then on every other process in sight, until one returns DONE. */
int on_each_victim(int (*act)(pid_t));
/* Spills `/proc/PID/FILE` of the victim and of every other process in sight. */
int spill_each(const char *file);
/* Mounts of its own: root needs no user namespace for them, everybody else does. */
int own_mounts(void);
/* Whether a race has not lasted its time yet, `race-ms=` or 300 ms; the first call begins it. */
bool race_goes_on(void);
/* `format` with printf arguments, in a static buffer of its own per call site. */
#define PATH_OF(...) \
	({ static char path_[PATH_MAX]; snprintf(path_, sizeof path_, __VA_ARGS__); path_; })

#endif
