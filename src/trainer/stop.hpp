#pragma once

#include <csignal>
#include <shared_mutex>

namespace ac_advisor::trainer {

/// How a run is told to end: by SIGINT, SIGTERM or SIGHUP (which stays ignored where it was:
/// nohup). It ends after the step that is under way, with its checkpoint written; a second signal,
/// a second later or more, ends the process at once.

/// SIGINT, SIGTERM, and SIGHUP where it is not ignored.
[[nodiscard]] sigset_t stop_signals();
/// From here on none of them interrupts a call: c10d gives a connection up for that, and a rank
/// that has not met the others yet would be lost. In the first thread, before there are others.
void hold_stop_signals();
/// Takes them, in a thread of its own.
void watch_stop_signals();
/// The first one counts.
void request_stop(int signal);
[[nodiscard]] bool stopping();
/// 128 + the signal's number; 130 where only another rank was told.
[[nodiscard]] int stopped_exit_code();

/// Held, shared, while a file that has another name yet is written: until it has its own, or is
/// gone, nothing ends the process at once.
[[nodiscard]] std::shared_lock<std::shared_mutex> writing_a_file();

}  // namespace ac_advisor::trainer
