#include "python.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "ac_advisor/model/error.hpp"
#include "cache.hpp"
#include "files/fingerprint.hpp"
#include "process/child.hpp"

namespace ac_advisor::capture {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* made_folder = "python-2.11";  // scripts/bootstrap.sh makes it, too
constexpr const char* packages[] = {"torch", "transformers"};

/// Writes what the interpreter has to a file: versions, and the folders whose contents say so.
constexpr const char* probe = R"(
import importlib.util, json, os, sys
from importlib import metadata
told = {"folders": []}
for name in "torch", "transformers":
    found = importlib.util.find_spec(name)
    if found is not None and found.origin:
        told[name] = metadata.version(name)
        told["folders"].append(os.path.dirname(os.path.dirname(found.origin)))
with open(sys.argv[1], "w") as file:
    json.dump(told, file)
)";

struct Candidate {
  std::string path, source;
  bool required = false;  ///< asked for by name: no other will do
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// As a shell finds it; empty: nowhere.
std::string on_path(const std::string& program) {
  const std::string folders = variable("PATH");
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, end - begin)) / program;
    std::error_code none;
    if (end > begin && fs::is_regular_file(file, none)) return file.string();
    begin = end + 1;
  }
  return {};
}

std::vector<Candidate> candidates(const std::string& given) {
  const auto named = [](const std::string& path) {
    return path.find('/') == std::string::npos && !on_path(path).empty() ? on_path(path) : path;
  };
  if (!given.empty()) return {{named(given), "--python " + given, true}};
  if (const std::string set = variable("AC_ADVISOR_PYTHON"); !set.empty())
    return {{named(set), "AC_ADVISOR_PYTHON " + set, true}};
  std::vector<Candidate> all;
  if (const std::string active = variable("VIRTUAL_ENV"); !active.empty())
    all.push_back({active + "/bin/python", "VIRTUAL_ENV " + active});
  if (const std::string found = on_path("python3"); !found.empty())
    all.push_back({found, "python3 of PATH"});
  all.push_back({(cache_folder() / made_folder / "bin/python").string(), ""});
  return all;
}

/// When what lies in a folder last changed: pip renames there what it installs.
std::int64_t changed(const std::string& folder) {
  std::error_code error;  // min() then; the clock's epoch is in the future
  return static_cast<std::int64_t>(fs::last_write_time(folder, error).time_since_epoch().count());
}

/// "" is both what a package is that is not there and a file that is none.
std::string text_of(const Json& told, const char* key) {
  return told.is_object() && told.contains(key) && told.at(key).is_string()
             ? told.at(key).get<std::string>()
             : std::string();
}

std::vector<std::string> folders_of(const Json& told) {
  std::vector<std::string> all;
  if (told.is_object() && told.contains("folders") && told.at("folders").is_array())
    for (const Json& folder : told.at("folders"))
      if (folder.is_string()) all.push_back(folder.get<std::string>());
  return all;
}

std::int64_t newest(const std::vector<std::string>& folders) {
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const std::string& folder : folders) last = std::max(last, changed(folder));
  return last;
}

fs::path kept_as(const Candidate& candidate) {
  // Not where links lead: a virtual environment's python is one.
  const std::string path = fs::absolute(candidate.path).string();
  return cache_folder() / "pythons" /
         (files::fingerprint(path + "\n" + variable("PYTHONPATH")) + ".json");
}

/// What it said last time, if nothing has changed since.
std::optional<Json> remembered(const Candidate& candidate) {
  const auto text = read_file(kept_as(candidate));
  if (!text) return std::nullopt;
  const Json told = Json::parse(*text, nullptr, false);
  const auto folders = folders_of(told);
  const bool same = folders.size() == std::size(packages) && told.contains("changed") &&
                    told.at("changed") == Json(newest(folders));
  return same ? std::optional(told) : std::nullopt;
}

/// Runs the interpreter; nothing where it cannot be started or does not answer.
std::optional<Json> asked(const Candidate& candidate) {
  const Workplace place(cache_folder() / "pythons");
  const std::string answer = place / "answer.json";
  const process::ChildEnd end = process::run_child({candidate.path, "-c", probe, answer}, {},
                                                   process::WithoutParent::ends, place / "output");
  if (!end.started || !WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0) return std::nullopt;
  const auto text = read_file(answer);
  Json told = text ? Json::parse(*text, nullptr, false) : Json();
  if (!told.is_object()) return std::nullopt;
  if (const auto folders = folders_of(told); folders.size() == std::size(packages)) {
    told["changed"] = newest(folders);
    write_file(kept_as(candidate), told.dump() + "\n");
  }
  return told;
}

}  // namespace

std::string how_to_make_one() {
  const std::string folder = (cache_folder() / made_folder).string();
  return fmt::format(
      "python3 -m venv {0} && {0}/bin/pip install torch==2.11.0 transformers==5.23.0", folder);
}

Python find_python(const std::string& given) {
  std::string tried;
  for (const Candidate& candidate : candidates(given)) {
    std::error_code none;
    const std::string name = candidate.source.empty() ? candidate.path : candidate.source;
    std::string lacks = "is not there";
    if (fs::exists(candidate.path, none)) {
      auto told = remembered(candidate);
      if (!told) told = asked(candidate);
      Python python{candidate.path, told ? text_of(*told, "torch") : "",
                    told ? text_of(*told, "transformers") : ""};
      if (!python.torch.empty() && !python.transformers.empty()) return python;
      lacks = !told                  ? "does not run as Python"
              : python.torch.empty() ? "has no torch"
                                     : "has no transformers";
    } else if (candidate.source.empty()) {
      continue;  // nobody has made it yet
    }
    if (candidate.required)
      throw UserError(
          fmt::format("{} {}; give one that has torch and transformers, or make one: {}", name,
                      lacks, how_to_make_one()));
    tried += (tried.empty() ? "" : ", ") + name + " " + lacks;
  }
  throw UserError(fmt::format("no Python with torch and transformers was found{}; make one: {}",
                              tried.empty() ? "" : " (" + tried + ")", how_to_make_one()));
}

}  // namespace ac_advisor::capture
