#pragma once

namespace ac_advisor::process {

/// What is freed stays with the process: a sweep makes and drops programs of megabytes by the
/// hundred, and glibc would hand each back to the system, to be cleared page by page the next time.
void keep_freed_memory();

}  // namespace ac_advisor::process
