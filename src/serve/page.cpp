// The page, and what it offers of a folder.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/serve/serve.hpp"

namespace ac_advisor::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view place = R"(<script type="application/json" id="given">{}</script>)";
// From the program's folder: where it is installed, and where it is built.
constexpr const char* installed_page = "../share/ac-advisor/ac-advisor.html";
constexpr const char* built_page = "../web/ac-advisor.html";
constexpr std::size_t most_files = 200, most_visited = 20'000;
constexpr std::uintmax_t most_bytes = std::uintmax_t{1} << 20;  // of one file
constexpr std::uintmax_t most_read = std::uintmax_t{32} << 20;  // of a request
constexpr int most_depth = 3;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Found {
  std::uintmax_t bytes;
  fs::path path;
  auto operator<=>(const Found&) const = default;
};

/// A configuration names its architecture; package.json and a tokenizer's file do not.
bool is_configuration(const std::string& text) {
  if (text.find("\"model_type\"") == std::string::npos) return false;  // most: not parsed
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() && json.contains("model_type");
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

}  // namespace

std::string page_text(const std::string& file) {
  std::error_code none;
  std::vector<fs::path> places;
  if (!file.empty()) {
    places.emplace_back(file);
  } else {
    const fs::path program = fs::read_symlink("/proc/self/exe", none).parent_path();
    places = {program / installed_page, program / built_page};
  }
  for (const fs::path& path : places)
    if (fs::is_regular_file(path, none)) return text_of(path);
  throw UserError((file.empty() ? std::string("the page is not part of this program")
                                : file + ": no such file") +
                  "; `cmake --preset web && cmake --build --preset web` makes "
                  "build/web/ac-advisor.html (--page "
                  "FILE names it)");
}

std::vector<Offered> offered_files(const fs::path& folder) {
  std::vector<Found> found;
  std::error_code error;
  std::size_t visited = 0;
  // Folders that are links are not followed, nor read those that may not be.
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && visited < most_visited;
       at.increment(error), ++visited) {
    if (hidden(at->path()) || at.depth() >= most_depth) at.disable_recursion_pending();
    std::error_code none;
    if (at->is_symlink(none) || !at->is_regular_file(none) || hidden(at->path())) continue;
    const std::uintmax_t bytes = at->file_size(none);
    if (at->path().extension() == ".json" && !none && bytes <= most_bytes)
      found.push_back({bytes, at->path()});
  }
  // A configuration is small: what a request has no time for is the large ones.
  std::sort(found.begin(), found.end());
  std::vector<Offered> files;
  std::uintmax_t left = most_read;
  for (const Found& file : found) {
    if (files.size() == most_files || file.bytes > left) break;
    left -= file.bytes;
    std::string text = text_of(file.path);
    if (is_configuration(text))
      files.push_back({file.path.lexically_relative(folder).generic_string(), std::move(text)});
  }
  std::sort(files.begin(), files.end(),
            [](const Offered& a, const Offered& b) { return a.name < b.name; });
  return files;
}

std::string page_with(const std::string& page, const std::vector<Offered>& files) {
  const std::size_t at = page.find(place);
  if (at == std::string::npos) throw UserError("the page is not the one that web/ makes");
  nlohmann::ordered_json given{{"files", nlohmann::ordered_json::array()}};
  for (const Offered& file : files)
    given["files"].push_back({{"name", file.name}, {"text", file.text}});
  // No `<` means no tag and no comment can end or begin in it.
  std::string safe;
  for (const char c : given.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  std::string whole = page;
  return whole.replace(at + place.find("{}"), 2, safe);
}

}  // namespace ac_advisor::serve
