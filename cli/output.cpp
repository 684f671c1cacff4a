#include "cli/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/diagnosis.hpp"
#include "ac_advisor/reports/snapshot.hpp"
#include "cli/help.hpp"
#include "process/ending_signals.hpp"
#include "reports/grid.hpp"

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

[[noreturn]] void refuse(const std::string& file, int problem, const char* way_out) {
  throw UserError("--output " + file + ": " + std::strerror(problem) + "; " + way_out);
}

/// A device or a pipe (/dev/null, /dev/stdout) is written to, never replaced.
void write_special(const std::string& text, const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) refuse(file, errno, "choose another file");
  const int problem = write_all(descriptor, text) ? 0 : errno;
  ::close(descriptor);
  if (problem != 0) refuse(file, problem, "choose another file");
}

mode_t new_file_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666U & ~mask;
}

void replace_file(const std::string& text, const std::string& file, mode_t mode) {
  const process::SignalsWait waiting;  // the temporary name is not to be left
  std::string temporary = file + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) refuse(file, errno, "choose another folder");
  const bool written =
      write_all(descriptor, text) && ::fchmod(descriptor, mode) == 0 && ::fsync(descriptor) == 0;
  int problem = written ? 0 : errno;
  if (::close(descriptor) != 0 && problem == 0) problem = errno;
  if (problem == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) problem = errno;
  if (problem == 0) return;
  ::unlink(temporary.c_str());
  refuse(file, problem, "the file was left as it was");
}

/// What a POSIX program takes the locale's character set from; the first that is set counts.
bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

reports::Style terminal_style(const std::string& output, std::size_t rows) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  const bool terminal = output.empty() && isatty(STDOUT_FILENO) == 1;
  const int columns = terminal ? std::clamp(terminal_columns(), 60, 160) : 80;
  return {wanted && terminal, rows, static_cast<std::size_t>(columns),
          !output.empty() || utf8_locale()};
}

std::string in_locale(const std::string& text, const reports::Style& style) {
  return style.utf8 ? text : reports::ascii_only(text);
}

void write_output(const std::string& text, const std::string& file) {
  if (file.empty()) {
    if (!write_all(STDOUT_FILENO, text) && errno != EPIPE)
      throw UserError(std::string("cannot write to stdout: ") + std::strerror(errno));
    return;
  }
  struct stat old {};
  const bool exists = ::stat(file.c_str(), &old) == 0;
  if (exists && S_ISDIR(old.st_mode)) throw UserError("--output " + file + ": is a folder");
  if (exists && !S_ISREG(old.st_mode)) return write_special(text, file);
  // Beside the file itself, not beside a link to it: the link stays.
  std::error_code none;
  const auto linked = std::filesystem::canonical(file, none);
  replace_file(text, none ? file : linked.string(), exists ? old.st_mode & 0777U : new_file_mode());
}

std::string read_saved_file(const std::string& file) {
  constexpr std::size_t most = std::size_t{64} << 20;
  std::ifstream stream(file, std::ios::binary);
  std::string text;
  for (char buffer[1 << 16]; stream.read(buffer, sizeof buffer), stream.gcount() > 0;) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most)
      throw UserError(file + ": larger than 64 MiB, which no profile or sweep is");
  }
  if (!stream.eof())
    throw UserError(file + ": cannot be read; give what plan or advise --format json wrote");
  return text;
}

template <typename Value>
std::string render(const Value& value, const std::string& format, const reports::Style& style) {
  if (format == "table") return in_locale(reports::table(value, style), style);
  if (format == "json") return reports::json(value);
  if (format == "csv") return reports::csv(value);
  if (format == "md") return reports::markdown(value);
  if (format == "html")
    throw UserError(
        "--format html: of plan, advise, compare, trace FILE, diagnose and report; plan's page "
        "explains the peak too");
  throw UserError("--format " + format + ": must be table, json, csv, md or html");
}

template std::string render(const reports::Measurement&, const std::string&, const reports::Style&);
template std::string render(const reports::Measurements&, const std::string&,
                            const reports::Style&);
template std::string render(const profile::Profile&, const std::string&, const reports::Style&);
template std::string render(const advise::Sweep&, const std::string&, const reports::Style&);
template std::string render(const advise::CompressionChoice&, const std::string&,
                            const reports::Style&);
template std::string render(const advise::Largest&, const std::string&, const reports::Style&);
template std::string render(const profile::Diff&, const std::string&, const reports::Style&);
template std::string render(const reports::SweepDiff&, const std::string&, const reports::Style&);
template std::string render(const reports::Explanation&, const std::string&, const reports::Style&);
template std::string render(const reports::Trace&, const std::string&, const reports::Style&);
template std::string render(const trace::Summary&, const std::string&, const reports::Style&);
template std::string render(const reports::RankSummaries&, const std::string&,
                            const reports::Style&);
template std::string render(const snapshot::Analysis&, const std::string&, const reports::Style&);
template std::string render(const snapshot::Against&, const std::string&, const reports::Style&);
template std::string render(const snapshot::Growth&, const std::string&, const reports::Style&);
template std::string render(const trace::Diagnosis&, const std::string&, const reports::Style&);
template std::string render(const trace::Examination&, const std::string&, const reports::Style&);

}  // namespace ac_advisor::cli
