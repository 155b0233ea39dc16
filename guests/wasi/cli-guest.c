/* What the command suite has a guest do. One source, compiled natively and to WebAssembly: whatever it
 * prints must be the same behind both walls. Each word of the command line is an act; those that take a
 * word of their own are followed by it. An act that fails prints the kernel's name for why. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *name_of(int number) {
    switch (number) {
    case EACCES: return "EACCES";
    case EBADF: return "EBADF";
    case EBUSY: return "EBUSY";
    case EEXIST: return "EEXIST";
    case EISDIR: return "EISDIR";
    case EMFILE: return "EMFILE";
    case ENOENT: return "ENOENT";
    case ENOSPC: return "ENOSPC";
    case ENOTDIR: return "ENOTDIR";
    case ENOTEMPTY: return "ENOTEMPTY";
    case EPERM: return "EPERM";
    case EROFS: return "EROFS";
    default: return strerror(number);
    }
}

static void tell(const char *act, const char *word, int failed) {
    printf("%s %s: %s\n", act, word, failed ? name_of(errno) : "done");
}

/* From one descriptor to another, to the end. */
static int copy(int from, int to) {
    char buffer[4096];
    ssize_t length;
    while ((length = read(from, buffer, sizeof buffer)) > 0)
        if (write(to, buffer, (size_t)length) != length) return -1;
    return (int)length;
}

static void show(const char *path) {
    fflush(stdout);
    int file = open(path, O_RDONLY);
    int failed = file < 0 || copy(file, STDOUT_FILENO) < 0;
    if (failed) tell("show", path, 1);
    if (file >= 0) close(file);
}

static void put(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int failed = file < 0 || write(file, "written\n", 8) != 8;
    tell("put", path, failed);
    if (file >= 0) close(file);
}

static int by_name(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void list(const char *path) {
    char *names[256];
    size_t count = 0;
    DIR *folder = opendir(path);
    if (!folder) {
        tell("list", path, 1);
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder)) && count < 256;)
        if (entry->d_name[0] != '.') names[count++] = strdup(entry->d_name);
    closedir(folder);
    qsort(names, count, sizeof *names, by_name);
    for (size_t at = 0; at < count; at++) printf("%s\n", names[at]);
}

/* Opens files until there are no more to have. */
static void open_all(void) {
    int count = 0;
    while (count < 100000 && open("/dev/null", O_RDONLY) >= 0) count++;
    printf("opened %s, then %s\n", count > 0 ? "some" : "none", name_of(errno));
}

/* Takes memory and uses it. */
static void grow(long mebibytes) {
    for (long taken = 0; taken < mebibytes; taken++) {
        char *memory = malloc(1 << 20);
        if (!memory) {
            printf("grew by less\n");
            return;
        }
        memset(memory, 1, 1 << 20);
        __asm__ volatile("" : : "r"(memory) : "memory");
    }
    printf("grew\n");
}

static volatile int zero;

/* Never ends, by way of a pointer: a compiler that saw it would say so. */
static int (*volatile again)(volatile char *above);

static int recurse(volatile char *above) {
    volatile char here[1024];
    here[0] = above[0];
    return again(here) + here[zero];
}

/* Writes more bytes than fit into one file. */
static void fill(const char *path) {
    static char block[65536];
    int file = open(path, O_WRONLY | O_CREAT, 0644), failed = file < 0;
    for (int at = 0; at < 1024 && !failed; at++)
        failed = write(file, block, sizeof block) != sizeof block;
    tell("fill", path, failed);
}

/* Answers one connection on the first socket that it was given. */
static void serve(void) {
    int connection = accept(3, NULL, NULL);
    if (connection < 0) {
        tell("serve", "3", 1);
        return;
    }
    char buffer[64];
    ssize_t length = read(connection, buffer, sizeof buffer);
    if (length > 0) write(connection, buffer, (size_t)length);
    close(connection);
    printf("served\n");
}

static void do_alone(const char *act) {
    static char block[4096];
    char here = 0;
    fflush(stdout);
    if (!strcmp(act, "copy")) copy(STDIN_FILENO, STDOUT_FILENO);
    else if (!strcmp(act, "flood")) for (;;) write(STDOUT_FILENO, block, sizeof block);
    else if (!strcmp(act, "spin")) for (;;) zero = 0;
    else if (!strcmp(act, "sleep")) for (;;) sleep(1000);
    else if (!strcmp(act, "trap")) __builtin_trap();
    else if (!strcmp(act, "divide")) printf("%d\n", 7 / zero);
    else if (!strcmp(act, "recurse")) again = recurse, printf("%d\n", recurse(&here));
    else if (!strcmp(act, "open-all")) open_all();
    else if (!strcmp(act, "serve")) serve();
    else if (!strcmp(act, "tty")) printf("%d%d%d\n", isatty(0), isatty(1), isatty(2));
    else if (!strcmp(act, "here")) printf("%s\n", getcwd(block, sizeof block));
    else printf("no such act: %s\n", act);
}

static int do_with(const char *act, const char *word) {
    if (!strcmp(act, "say")) printf("%s\n", word);
    else if (!strcmp(act, "env")) printf("%s\n", getenv(word) ? getenv(word) : "unset");
    else if (!strcmp(act, "show")) show(word);
    else if (!strcmp(act, "put")) put(word);
    else if (!strcmp(act, "list")) list(word);
    else if (!strcmp(act, "fill")) fill(word);
    else if (!strcmp(act, "grow")) grow(atol(word));
    else if (!strcmp(act, "remove")) tell(act, word, unlink(word));
    else if (!strcmp(act, "folder")) tell(act, word, mkdir(word, 0755));
    else if (!strcmp(act, "exit")) exit(atoi(word));
    else return 0;
    return 1;
}

int main(int count, char **words) {
    for (int at = 1; at < count; at++) {
        if (at + 1 < count && do_with(words[at], words[at + 1])) at++;
        else do_alone(words[at]);
    }
    return 0;
}
