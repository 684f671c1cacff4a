#include "ac_advisor/serve/serve.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/generate.hpp"

namespace ac_advisor::cli {
namespace {

/// Nothing waits for it: the browser may stay longer than this program.
void open_in_browser(std::string url) {
  std::string program = "xdg-open";
  char* arguments[] = {program.data(), url.data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0)
    std::fprintf(stderr, "ac-advisor: xdg-open is not there: open the address by hand\n");
}

}  // namespace

std::string run_serve(const Arguments& a) {
  const std::string page = serve::page_text(a.page);
  const std::filesystem::path folder = std::filesystem::current_path();
  serve::listen(
      a.port, [&] { return serve::page_with(page, serve::offered_files(folder)); },
      [&](std::uint16_t port) {
        const std::string url = fmt::format("http://127.0.0.1:{}/", port);
        std::fprintf(stderr, "ac-advisor: the planner is at %s (Ctrl-C ends it)\n", url.c_str());
        if (a.open) open_in_browser(url);
      });
  return "";
}

std::string planner_page() { return serve::page_text(""); }

}  // namespace ac_advisor::cli
