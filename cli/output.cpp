#include "cli/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::cli {
namespace {

bool write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

reports::Style terminal_style(const std::string& output, std::size_t rows) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  return {output.empty() && wanted && isatty(STDOUT_FILENO) == 1, rows};
}

void write_output(const std::string& text, const std::string& file) {
  if (file.empty()) {
    if (!write_all(STDOUT_FILENO, text) && errno != EPIPE)
      throw UserError(std::string("cannot write to stdout: ") + std::strerror(errno));
    return;
  }
  const std::string temporary = file + ".tmp" + std::to_string(getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw UserError("--output " + file + ": " + std::strerror(errno) + "; choose another folder");
  const bool written = write_all(descriptor, text) && ::fsync(descriptor) == 0;
  int problem = written ? 0 : errno;
  if (::close(descriptor) != 0 && problem == 0) problem = errno;
  if (problem == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) problem = errno;
  if (problem == 0) return;
  ::unlink(temporary.c_str());
  throw UserError("--output " + file + ": " + std::strerror(problem) + "; it was left as it was");
}

template <typename Value>
std::string render(const Value& value, const std::string& format, const reports::Style& style) {
  if (format == "table") return reports::table(value, style);
  if (format == "json") return reports::json(value);
  if (format == "csv") return reports::csv(value);
  if (format == "md") return reports::markdown(value);
  if (format == "html") throw UserError("--format html: not in this version yet; use md or json");
  throw UserError("--format " + format + ": must be table, json, csv or md");
}

template std::string render(const profile::Profile&, const std::string&, const reports::Style&);
template std::string render(const advise::Sweep&, const std::string&, const reports::Style&);
template std::string render(const profile::Diff&, const std::string&, const reports::Style&);

}  // namespace ac_advisor::cli
