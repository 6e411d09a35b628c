/* The wall's clock as a test sets it: so many seconds off as the file WALL_OFFSET says (int64). All other clocks run on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void look(void) {
    const char *path = getenv("WALL_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (seen != MAP_FAILED) offset = seen;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec seen;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &seen);
    if (!failed) now->tv_sec = seen.tv_sec, now->tv_usec = seen.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec seen;
    clock_gettime(CLOCK_REALTIME, &seen);
    if (now) *now = seen.tv_sec;
    return seen.tv_sec;
}
