#include "cli/output.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ac_advisor/model/error.hpp"
#include "profile/full_profile.hpp"

using namespace ac_advisor;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "ac_advisor_output.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::permissions(path, fs::perms::owner_all, ignored);
    fs::remove_all(path, ignored);
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

/// Files may not grow past this many bytes, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &old_) == 0);
    const rlimit limit{bytes, old_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("output replaces a file whole and leaves nothing beside it") {
  const Folder folder;
  const fs::path file = folder.path / "plan.json";
  cli::write_output("first\n", file);
  CHECK(read(file) == "first\n");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  cli::write_output("second\n", file);
  CHECK(read(file) == "second\n");
  CHECK(folder.files() == 1);
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a new file has the permissions that the umask leaves") {
  const Folder folder;
  const mode_t old = umask(027);
  cli::write_output("text", folder.path / "f");
  umask(old);
  struct stat status {};
  REQUIRE(stat((folder.path / "f").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0640U);
}

TEST_CASE("a full disk leaves the old file whole") {
  const Folder folder;
  const fs::path file = folder.path / "plan.json";
  write(file, "old");
  {
    const FileSizeLimit limit(1000);
    CHECK_THROWS_AS(cli::write_output(std::string(100000, 'x'), file), UserError);
  }
  CHECK(read(file) == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("a folder that cannot be written leaves the old file whole") {
  const Folder folder;
  const fs::path file = folder.path / "plan.json";
  write(file, "old");
  CHECK_THROWS_AS(cli::write_output("new", folder.path / "missing" / "plan.json"), UserError);
  CHECK_THROWS_AS(cli::write_output("new", folder.path), UserError);
  if (geteuid() != 0) {  // root may write everywhere
    fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
    CHECK_THROWS_AS(cli::write_output("new", file), UserError);
  }
  CHECK(read(file) == "old");
}

TEST_CASE("a link stays a link: what it points to is replaced") {
  const Folder folder;
  fs::create_directory(folder.path / "real");
  write(folder.path / "real" / "f", "old");
  fs::create_symlink("real/f", folder.path / "link");
  cli::write_output("new", folder.path / "link");
  CHECK(fs::is_symlink(folder.path / "link"));
  CHECK(read(folder.path / "real" / "f") == "new");
}

TEST_CASE("a device is written to, never replaced") {
  cli::write_output("text", "/dev/null");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_THROWS_AS(cli::write_output("text", "/dev/full"), UserError);
}

TEST_CASE("formats: the four, html of whole pages only, and others refused") {
  const profile::Profile p = test::full_profile();
  for (const char* format : {"table", "json", "csv", "md"})
    CHECK_FALSE(cli::render(p, format, {}).empty());
  CHECK_THROWS_WITH_AS(static_cast<void>(cli::render(p, "html", {})),
                       doctest::Contains("--format html: of plan, advise, compare"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(cli::render(p, "xml", {})),
                       doctest::Contains("must be table, json, csv, md or html"), UserError);
}

TEST_CASE("NO_COLOR and a file both mean no colour") {
  REQUIRE(setenv("NO_COLOR", "1", 1) == 0);
  CHECK_FALSE(cli::terminal_style("", 15).color);
  REQUIRE(unsetenv("NO_COLOR") == 0);
  CHECK_FALSE(cli::terminal_style("file", 15).color);
}
