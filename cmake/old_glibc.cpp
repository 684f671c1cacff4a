// What a program compiled on a newer glibc asks for and glibc 2.28 has not: linked in by
// cmake/OldGlibc.cmake, so that nothing of it is asked of the system. Hidden: a program that
// preloads the emulated device keeps its own.
#include <pthread.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#define AC_ADVISOR_HIDDEN __attribute__((visibility("hidden")))

extern "C" {

// glibc 2.32, read by libstdc++: "not known to have one thread alone" costs an atomic, no more.
AC_ADVISOR_HIDDEN extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// glibc 2.36, of libevent and std::random_device.
AC_ADVISOR_HIDDEN void arc4random_buf(void* to, std::size_t bytes) noexcept {
  auto* at = static_cast<unsigned char*>(to);
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      std::abort();  // as glibc's does where there is no randomness
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

AC_ADVISOR_HIDDEN std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  arc4random_buf(&value, sizeof value);
  return value;
}

// glibc 2.30, of std::condition_variable::wait_for: the same deadline by the clock that a condition
// waits by. Who waits looks at its own clock when it wakes, so a clock that was set meanwhile costs
// a wake too early or late.
AC_ADVISOR_HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                             clockid_t clock, const timespec* until) {
  constexpr long second = 1'000'000'000;
  timespec now{};
  timespec real{};
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) {
    return EINVAL;
  }
  timespec deadline{real.tv_sec + until->tv_sec - now.tv_sec,
                    real.tv_nsec + until->tv_nsec - now.tv_nsec};
  while (deadline.tv_nsec < 0) {
    deadline.tv_nsec += second;
    --deadline.tv_sec;
  }
  while (deadline.tv_nsec >= second) {
    deadline.tv_nsec -= second;
    ++deadline.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &deadline);
}

}  // extern "C"
