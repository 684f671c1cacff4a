// The safetensors reader against files that are made here byte by byte: good ones, and every way to
// be wrong.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ac_advisor/model/error.hpp"
#include "trainer/doctest_after_torch.hpp"
#include "trainer/run_step.hpp"
#include "trainer/weights/safetensors.hpp"
#include "trainer/weights/weights.hpp"

namespace ac_advisor {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ac-trainer-test-" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string file_with(const Folder& folder, const std::string& header, const std::string& data,
                      std::uint64_t length) {
  const std::string path = (folder.path / "m.safetensors").string();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(length >> (8 * i) & 0xFF));
  file << header << data;
  return path;
}
std::string file_with(const Folder& folder, const std::string& header, const std::string& data) {
  return file_with(folder, header, data, header.size());
}

std::string error_of(const std::string& path) {
  try {
    const trainer::SafetensorsFile file(path);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a safetensors file that is written is read back, in another type too") {
  const Folder folder;
  const std::string path = (folder.path / "w.safetensors").string();
  const at::Tensor a = at::arange(6, at::kFloat).view({2, 3}),
                   b = at::full({4}, 1.5, at::kBFloat16);
  trainer::write_safetensors(path, {{"a", a}, {"b", b}}, {{"steps", "7"}});
  const trainer::SafetensorsFile file(path);
  CHECK(file.metadata().at("steps") == "7");
  at::Tensor part = at::empty({4}, at::kFloat);
  file.read("a", 1, 5, part);
  CHECK(at::equal(part, at::arange(1, 5, at::kFloat)));
  at::Tensor widened = at::empty({4}, at::kFloat);
  file.read("b", 0, 4, widened);
  CHECK(at::equal(widened, at::full({4}, 1.5F)));
  CHECK(fs::exists(path));
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 1);
}

TEST_CASE("each way that a safetensors file can be wrong has its own words") {
  const Folder folder;
  const std::string eight(8, 'x');
  const auto one = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + at +
           "}}";
  };
  CHECK(error_of(file_with(folder, one("F32", "[2]", "[0,8]"), eight)).empty());
  CHECK(contains(error_of("/no/such/file"), "cannot be read"));
  CHECK(contains(error_of(folder.path.string()), "is not a file"));
  CHECK(contains(error_of(file_with(folder, "", "", 1ULL << 62)), "says its header has"));
  CHECK(contains(error_of(file_with(folder, "{}", "", 5)), "says its header has"));
  CHECK(contains(error_of(file_with(folder, "[1]", "")), "not a JSON object"));
  CHECK(contains(error_of(file_with(folder, R"({"t":{}})", "")), "must have dtype"));
  CHECK(contains(error_of(file_with(folder, one("F8_E4M3", "[8]", "[0,8]"), eight)), "F8_E4M3"));
  CHECK(contains(error_of(file_with(folder, one("F32", "[-2]", "[0,8]"), eight)), "non-negative"));
  CHECK(contains(error_of(file_with(folder, one("F32", "[2.5]", "[0,8]"), eight)), "integer"));
  CHECK(contains(error_of(file_with(folder, one("F32", "[4611686018427387904,8]", "[0,8]"), eight)),
                 "64 bits"));
  CHECK(contains(error_of(file_with(folder, one("F32", "[3]", "[0,8]"), eight)), "need 12"));
  CHECK(contains(error_of(file_with(folder, one("F32", "[2]", "[4,12]"), eight + eight)),
                 "begins at byte 4"));
  CHECK(contains(error_of(file_with(folder, one("F32", "[2]", "[0,8]"), "xxxx")), "cut short"));
  CHECK(
      contains(error_of(file_with(folder, one("F32", "[2]", "[0,8]"), eight + "y")), "cut short"));
  const std::string overlap = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  CHECK(contains(error_of(file_with(folder, overlap, eight)), "ends at 8"));
  CHECK(contains(error_of(file_with(folder, R"({"__metadata__":{"a":1}})", "")), "strings"));
  const std::string short_file = (folder.path / "s").string();
  std::ofstream(short_file) << "abc";
  CHECK(contains(error_of(short_file), "too short"));
}

TEST_CASE("an index names the shards of a model's weights") {
  const Folder folder;
  const auto in = [&](const char* name) { return (folder.path / name).string(); };
  const at::Tensor a = at::arange(6, at::kFloat).view({2, 3}), b = at::full({4}, 1.5, at::kFloat);
  trainer::write_safetensors(in("one.safetensors"), {{"a", a}}, {});
  trainer::write_safetensors(in("two.safetensors"), {{"b", b}}, {});
  const std::string index = in("model.safetensors.index.json");
  const auto write = [&](const std::string& text) { std::ofstream(index) << text; };
  write(R"({"metadata":{"total_size":40},
            "weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  for (const std::string& path : {index, folder.path.string()}) {
    const trainer::Weights weights(path);
    REQUIRE(weights.find("b") != nullptr);
    CHECK(weights.find("c") == nullptr);
    at::Tensor part = at::empty({2}, at::kFloat);
    weights.read("a", 4, 6, part);
    CHECK(at::equal(part, at::arange(4, 6, at::kFloat)));
    weights.read("b", 0, 2, part);
    CHECK(at::equal(part, b.narrow(0, 0, 2)));
    trainer::check_weights(weights, {{.name = "a", .shape = {2, 3}}, {.name = "b", .shape = {4}}});
  }
  const auto error = [&](const std::string& text) {
    write(text);
    try {
      const trainer::Weights weights(index);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(contains(error("{"), "has no object \"weight_map\""));
  CHECK(contains(error(R"({"weight_map":{"a":3}})"), "the tensor \"a\" the file 3; expected the"));
  CHECK(contains(error(R"({"weight_map":{"a":"../one.safetensors"}})"), "a file beside the index"));
  CHECK(contains(error(R"({"weight_map":{"a":"two.safetensors"}})"), "which does not have it"));
  CHECK(
      contains(error(R"({"weight_map":{"a":"three.safetensors"}})"), "three.safetensors: cannot"));
  fs::remove(index);
  try {
    const trainer::Weights weights(folder.path.string());
    FAIL("was read");
  } catch (const UserError& e) {
    CHECK(contains(e.what(), "the folder has no model.safetensors and no model.safetensors.index"));
  }
}

TEST_CASE("weights of another model are refused by the tensor's name") {
  const std::string models = test::source_folder() + "/tests/oracle/models/";
  const trainer::Weights weights(models + "llama/model.safetensors");
  const model::ModelSpec other = model::load_model(models + "qwen3");
  const auto built = trainer::build(other, test::trainer_config({{"--seq", "16"}}));
  trainer::MemoryTracker::install();
  const auto alone = trainer::make_single();
  const trainer::Data data = test::random_tokens(other.vocab);
  trainer::Rank rank(*built, *alone, data, 1);
  try {
    rank.load_weights(&weights);
    FAIL("was read");
  } catch (const UserError& error) {
    CHECK(contains(error.what(), "model.layers.0.self_attn.q_proj.weight"));
    CHECK(contains(error.what(), "[64, 32]"));
  }
}

}  // namespace ac_advisor
