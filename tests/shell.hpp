#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace ac_advisor::test {

struct Ran {
  int code = -1;    ///< -1: a signal ended it
  std::string out;  ///< what it left on stdout
};

/// A line for sh.
inline Ran shell(const std::string& line) {
  std::FILE* pipe = popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ran ran;
  for (char buffer[4096]; const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe);)
    ran.out.append(buffer, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
  return ran;
}

}  // namespace ac_advisor::test
