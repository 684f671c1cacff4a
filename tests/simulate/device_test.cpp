#include "ac_advisor/simulate/device.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/simulate/clock.hpp"
#include "passes/small_model.hpp"
#include "simulate/memory_device.hpp"

namespace ac_advisor::test {
namespace {

using nlohmann::json;

/// What a file says of itself where the figure at `path` is `value`; "no error" where it is read.
std::string error_with(const std::string& path, const json& value) {
  json root = json::parse(simulate::device_file("h100-80gb"));
  json* node = &root;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    node = &(*node)[path.substr(begin, end - begin)];
    begin = end + 1;
  }
  (node->is_object() ? (*node)["value"] : *node) = value;
  try {
    static_cast<void>(simulate::parse_device(root.dump(), "my.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE(
    "a device file's figure that no device has is refused with file, field, value and range") {
  CHECK(error_with("bandwidth_bytes_per_second", 0) ==
        "my.json: \"bandwidth_bytes_per_second\" is 0; it must be a number from 1e3 to 1e21, a "
        "second");
  CHECK(error_with("usable_bytes", 1e300) ==
        "my.json: \"usable_bytes\" is 1e+300; it must be a whole number of bytes from 1 to 1e15");
  CHECK(error_with("usable_bytes", 90000000000) ==
        "my.json: \"usable_bytes\" is 90000000000; it must be at most memory_bytes, 85899345920");
  CHECK(error_with("sm_count", 131.5) ==
        "my.json: \"sm_count\" is 131.5; it must be a whole number from 1 to 1,000,000");
  CHECK(
      error_with("efficiency.collective.multiprocessors", 132) ==
      "my.json: \"efficiency.collective.multiprocessors\" is 132; it must be below sm_count, 132");
  for (const char* path :
       {"bandwidth_bytes_per_second", "peak_flops_per_second.bf16", "peak_flops_per_second.fp32",
        "link.bandwidth_bytes_per_second", "network.bandwidth_bytes_per_second",
        "efficiency.matmul.asymptote", "efficiency.matmul.tile_m", "efficiency.attention.forward",
        "efficiency.attention.cudnn.backward", "efficiency.pointwise.bandwidth_fraction",
        "efficiency.pointwise.strided_elements_per_second",
        "efficiency.kinds.rms_norm.bandwidth_fraction", "efficiency.collective.bandwidth_fraction",
        "memory_bytes", "sm_count", "node_size"}) {
    CAPTURE(path);
    for (const json& value : {json(0), json(-1), json("fast"), json(nullptr), json(1e300)})
      CHECK(error_with(path, value).find(std::string("my.json: \"") + path + "\" is ") == 0);
  }
  for (const char* path : {"host.forward_op_seconds", "kernel_floor_seconds", "host.step_seconds",
                           "efficiency.collective.latency_seconds"}) {
    CAPTURE(path);
    CHECK(error_with(path, 0) == "no error");
    CHECK(error_with(path, -1e-6).find("it must be from 0 to 10 seconds") != std::string::npos);
    CHECK(error_with(path, 1e9).find("it must be from 0 to 10 seconds") != std::string::npos);
  }
}

TEST_CASE("a device file that is no JSON says where, in this program's words") {
  const auto error_of = [](const std::string& text) {
    try {
      static_cast<void>(simulate::parse_device(text, "my.json"));
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string whole = simulate::device_file("h100-80gb");
  CHECK(error_of("") == "my.json: line 1, column 1: the file is empty");
  CHECK(error_of("[1]") == "my.json: must be a JSON object, in braces");
  CHECK(error_of(whole.substr(0, 400)).find("the JSON ends too early") != std::string::npos);
  CHECK(error_of("{\"name\": \"\xff\"}").find("not UTF-8 text") != std::string::npos);
  CHECK(error_of("{\"name\": 1, \"name\": 2}").find("there twice") != std::string::npos);
  CHECK(error_of(std::string(100'000, '[')).find("nested deeper than 32") != std::string::npos);
  for (const char* word : {"NaN", "Infinity", "-Infinity", "1e999"}) {
    CAPTURE(word);
    std::string text = simulate::device_file("h100-80gb");
    const std::size_t at = text.find("3350000000000.0");
    REQUIRE(at != std::string::npos);
    text.replace(at, 15, word);
    CHECK(error_of(text).find("my.json: ") == 0);
    CHECK(error_of(text).find("exception") == std::string::npos);
  }
}

TEST_CASE("a device's figures have one fingerprint, whatever is said of their sources") {
  const json root = json::parse(simulate::device_file("h100-80gb"));
  const std::string as_built_in = simulate::parse_device(root.dump(7), "my.json").figures;
  CHECK(as_built_in.size() == 16);
  CHECK(simulate::find_device("h100-80gb").figures.empty());
  const auto fingerprint = [&](const char* change) {
    return simulate::parse_device(root.patch(json::parse(change)).dump(), "my.json").figures;
  };
  CHECK(fingerprint("[]") == as_built_in);
  CHECK(fingerprint(R"([{"op": "replace", "path": "/title", "value": "mine"},
                        {"op": "replace", "path": "/usable_bytes/source", "value": "mine"}])") ==
        as_built_in);
  CHECK(fingerprint(
            R"([{"op": "replace", "path": "/peak_flops_per_second/bf16/value", "value": 2e15}])") !=
        as_built_in);
}

TEST_CASE("a kind that the op table does not have is refused by name") {
  json root = json::parse(simulate::device_file("h100-80gb"));
  root["efficiency"]["kinds"]["rms_nrom"] = root["efficiency"]["kinds"]["rms_norm"];
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate::parse_device(root.dump(), "my.json")),
                       doctest::Contains("efficiency.kinds.rms_nrom"), UserError);
}

TEST_CASE("a field that no device file has is refused by name, wherever it stands") {
  for (const char* field : {"host.regoin_seconds", "bandwith", "efficiency.matmul.tile"})
    CHECK(error_with(field, 1).find("\"" + std::string(field) +
                                    "\" is no field of a device file") != std::string::npos);
}

TEST_CASE("memory alone is a device with the rates of the nearest, of equals the fastest") {
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  const simulate::Device& d = simulate::find_device("24gib");
  const simulate::Device& like = simulate::find_device("rtx-4090");
  CHECK(d.name == "24gib");
  CHECK(simulate::rates_of("24gib") == "rtx-4090");
  CHECK(simulate::rates_of("rtx-4090").empty());
  CHECK(d.memory_bytes == 24 * gib);
  CHECK(d.usable_bytes == like.usable_bytes);  // 24 GiB, too
  CHECK(d.bandwidth == like.bandwidth);
  CHECK(simulate::find_device("40gb@h100-80gb").usable_bytes ==
        simulate::find_device("h100-80gb").usable_bytes / 2);
  CHECK(simulate::rates_of("80gib") == "h100-80gb");
  CHECK(simulate::rates_of("1000g") == "mi355x");  // the largest
  for (const char* wrong : {"0.5gib", "-24gib", "5000gib", "nangib", "infgib"})
    CHECK_THROWS_WITH_AS(static_cast<void>(simulate::find_device(wrong)),
                         doctest::Contains("memory from 1GiB to 4096GiB"), UserError);
  for (const char* wrong : {"24gib@cpu", "24gib@24gib"})
    CHECK_THROWS_WITH_AS(static_cast<void>(simulate::find_device(wrong)),
                         doctest::Contains("after @ comes a GPU's name"), UserError);
  CHECK_THROWS_WITH_AS(static_cast<void>(simulate::find_device("24gib@nonesuch")),
                       doctest::Contains("nonesuch: unknown GPU"), UserError);
}

TEST_CASE("every built-in device gives every step a time") {
  for (const std::string& name : simulate::device_names()) {
    CAPTURE(name);
    const simulate::Device& d = simulate::find_device(name);
    for (const AcMode ac : {AcMode::none, AcMode::full}) {
      const double step = simulate::walk_time(build(ac), d, 1, 1).step;
      CHECK(step > 0);
      CHECK(step < 10);
    }
  }
}

}  // namespace ac_advisor::test
