#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "config_text.hpp"

using namespace ac_advisor;
namespace fs = std::filesystem;

namespace {

/// A folder of the test's own, removed with it.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "ac_advisor_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string load_error(const std::string& model, const std::string& as = {}) {
  try {
    static_cast<void>(model::load_model(model, as));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every sample loads by name, whatever the case of its letters") {
  const auto names = model::sample_names();
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(model::load_model(name).name == name);
  }
  CHECK(model::load_model("Llama-3.2-1B").name == "llama-3.2-1b");
}

TEST_CASE("a config.json is called after its folder, any other file after itself") {
  const Folder folder;
  const std::string text = test::small_config("llama").dump();
  write(folder / "mine/config.json", text);
  write(folder / "other.json", text);
  CHECK(model::load_model((folder / "mine").string()).name == "mine");
  CHECK(model::load_model((folder / "mine/").string()).name == "mine");
  CHECK(model::load_model((folder / "mine/config.json").string()).name == "mine");
  CHECK(model::load_model((folder / "other.json").string()).name == "other");
  write(folder / "ours.json", test::small_config("ours").dump());
  CHECK(model::load_model((folder / "ours.json").string(), "mistral").family == "mistral");
}

TEST_CASE("an error in a file names the file") {
  const Folder folder;
  write(folder / "bad.json", "{");
  CHECK(
      load_error((folder / "bad.json").string()).starts_with((folder / "bad.json").string() + ":"));
}

TEST_CASE("a folder without a config.json says so") {
  const Folder folder;
  fs::create_directories(folder / "empty");
  CHECK(contains(load_error((folder / "empty").string()), "empty: the folder has no config.json"));
  fs::create_directories(folder / "strange/config.json");
  CHECK(load_error((folder / "strange").string()) != "");
}

TEST_CASE("a file of 100 MB is refused before it is read") {
  const Folder folder;
  write(folder / "big.json", "{}");
  fs::resize_file(folder / "big.json", 100'000'000);  // sparse
  CHECK(contains(load_error((folder / "big.json").string()), "big.json: larger than 64 MiB"));
  CHECK(contains(load_error("/dev/zero"), "/dev/zero: larger than 64 MiB"));
}

TEST_CASE("a model of Hugging Face's cache is found by its folder, its snapshot and its name") {
  const Folder folder;
  const std::string config = test::small_config("llama").dump();
  write(folder / "hub/models--our--small/snapshots/abc/config.json", config);
  const std::string repository = (folder / "hub/models--our--small").string();
  CHECK(model::load_model(repository).name == "small");
  CHECK(model::load_model(repository + "/").name == "small");
  CHECK(model::load_model(repository + "/snapshots/abc").name == "small");
  setenv("HF_HUB_CACHE", (folder / "hub").c_str(), 1);
  CHECK(model::load_model("our/small").name == "small");
  CHECK(contains(load_error("our/tall"),
                 "\"our/tall\": no such file or folder, nothing of that "
                 "name in Hugging Face's local cache, and no built-in model"));
  // A second snapshot: refs/main says which one counts, and without it none does.
  write(folder / "hub/models--our--small/snapshots/def/config.json",
        test::small_config("qwen2").dump());
  CHECK(contains(load_error("our/small"), "has 2 snapshots, and refs/main names none of them"));
  write(folder / "hub/models--our--small/refs/main", "def\n");
  CHECK(model::load_model("our/small").family == "qwen2");
  write(folder / "hub/models--our--bare/refs/main", "abc");
  CHECK(contains(load_error("our/bare"), "has no snapshots; give one snapshot's folder"));
  fs::create_directories(folder / "hub/models--our--half/snapshots/abc");
  CHECK(contains(load_error("our/half"), "the snapshot has no config.json; was it downloaded"));
  CHECK(contains(load_error("../models--our--small"), "no such file or folder"));
  // The cache before what is built in, and that where the cache has nothing.
  write(folder / "hub/models--Qwen--Qwen3-8B/snapshots/abc/config.json", config);
  CHECK(model::load_model("Qwen/Qwen3-8B").family == "llama");
  CHECK(model::load_model("Qwen/Qwen3-8B").name == "Qwen3-8B");
  CHECK(model::load_model("Qwen/Qwen3-4B").family == "qwen3");
  unsetenv("HF_HUB_CACHE");
}

TEST_CASE("an unknown name lists the samples and the nearest") {
  CHECK(contains(load_error("nonesuch"), "\"nonesuch\": no such file or folder"));
  CHECK(contains(load_error("nonesuch"), "samples: gemma-2-2b, gemma-3-1b, "));
  CHECK(contains(load_error("lama-3.2-1b"), "did you mean \"llama-3.2-1b\"?"));
  CHECK(contains(load_error("nonesuch"), "`ac-advisor models` lists the ids"));
  CHECK(load_error("") != "");
  CHECK(load_error(std::string(100'000, 'x')) != "");
  CHECK(load_error(std::string("a\0b", 3)) != "");
}
