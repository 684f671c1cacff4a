#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace ac_advisor::test {

using Json = nlohmann::ordered_json;

/// Two blocks of one product each: x (1 MiB) -> h1 -> h2, a loss of 4 bytes. Each product saves its
/// input. Storages: 0 and 1 weights, 2 input, 3 h1, 4 h2, 5 loss, 6 and 7 gradients of activations,
/// 8 and 9 of weights.
inline Json small_graph() {
  const std::int64_t mib = 1 << 20;
  Json g;
  g["schema"] = "ac-advisor/graph/1";
  g["name"] = "two products";
  g["made_by"] = {{"torch", "2.11.0"}, {"gpu", "an emulated one"}};
  g["batch"] = 2;
  g["seq"] = 16;
  for (const char* path : {"", "blocks", "blocks.0", "blocks.1"})
    g["modules"].push_back({{"path", path}, {"class", "Module"}});
  g["blocks"] = {2, 3};
  for (int s = 0; s < 10; ++s) g["storages"].push_back(s == 5 ? 4 : mib);
  for (int s = 0; s < 10; ++s)
    g["tensors"].push_back({{"storage", s},
                            {"dtype", s == 5 ? "float32" : "bfloat16"},
                            {"shape", s == 5 ? Json::array() : Json{1024, 512}}});
  for (int p = 0; p < 2; ++p)
    g["parameters"].push_back(
        {{"name", "blocks." + std::to_string(p) + ".weight"}, {"tensor", p}, {"trained", true}});
  g["buffers"] = Json::array();
  g["inputs"] = {2};
  g["others"] = Json::array();
  const auto micro = [](bool first) {
    const auto op = [](const char* name, const char* phase, Json in, Json out) {
      return Json{{"op", name},
                  {"phase", phase},
                  {"in", std::move(in)},
                  {"out", std::move(out)},
                  {"launches", 1}};
    };
    Json m;
    m["ops"].push_back(op("aten::mm", "forward", {2, 0}, {3}));
    m["ops"].back()["module"] = 2;
    m["ops"].back()["product"] = {1024, 512, 512};
    m["ops"].push_back(op("aten::mm", "forward", {3, 1}, {4}));
    m["ops"].back()["module"] = 3;
    m["ops"].back()["drops"] = {3};
    m["ops"].push_back(op("aten::sum", "loss", {4}, {5}));
    m["ops"].back()["frees"] = {4};
    const auto node = [&](Json made, int number, int forward) {
      made["node"] = number;
      made["forward"] = forward;
      return made;
    };
    m["ops"].push_back(op("aten::ones_like", "backward", {5}, {6}));
    Json second = op("aten::mm", "backward", {6, 3}, first ? Json{8, 7} : Json{7});
    second["frees"] = {6, 3};
    m["ops"].push_back(node(second, 1, 1));
    Json last = op("aten::mm", "backward", {7, 2}, first ? Json{9} : Json::array());
    last["frees"] = {7};
    m["ops"].push_back(node(last, 2, 0));
    m["outputs"] = {4};
    m["loss"] = 5;
    m["gradients"] = {{0, 9, 5}, {1, 8, 4}};
    return m;
  };
  g["micro_batches"] = {micro(true), micro(false)};
  return g;
}

}  // namespace ac_advisor::test
