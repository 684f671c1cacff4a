#pragma once

namespace ac_advisor::process {

/// While one lives, a descendant whose parent has ended becomes this process's child, not init's:
/// what a command started is still known when the command has gone.
class Adopting {
 public:
  Adopting();
  ~Adopting();
  Adopting(const Adopting&) = delete;
  Adopting& operator=(const Adopting&) = delete;

 private:
  int before_ = 0;
};

/// Ends all descendants of this process: SIGTERM, and SIGKILL to what is there 5 s later. Returns
/// when none is left, or 2 s after that.
void end_descendants();

}  // namespace ac_advisor::process
