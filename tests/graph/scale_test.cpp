#include <doctest/doctest.h>

#include "ac_advisor/graph/scale.hpp"

#include <functional>
#include <string>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/largest.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "graph/form.hpp"
#include "graph/scan_graph.hpp"
#include "graph/small_graph.hpp"
#include "reports/json_schema.hpp"

namespace ac_advisor::test {
namespace {

constexpr std::int64_t mib = 1 << 20;

/// small_graph() of 2 x 16, captured at 4 x 16 too. What is no weight has 32 KiB a token: rows of
/// 32 a token. At 4 x 16 the loss needs 5 MiB of scratch (storage 10), in one launch more.
Json scaled_graph() {
  Json g = small_graph();
  g["schema"] = "ac-advisor/graph/2";
  g["storages"].push_back(5 * mib);
  Json s;
  s["directions"] = {"batch", "seq"};
  s["refused"] = Json::object();
  s["batch_from"] = 2;
  s["seq_step"] = 8;
  s["sizes"] = {{2, 16}, {2, 32}};
  s["held_out"] = {{3, 24}};
  s["storages"] = Json::array();
  s["tensors"] = Json::array();
  for (const int storage : {2, 3, 4, 6, 7}) {
    s["storages"].push_back({storage, 0});
    s["tensors"].push_back({storage, 0, 1});
  }
  s["tokens"] = 4;
  s["forms"] = {{{"terms", {{32768, 1, 1}}}},
                {{"terms", {{32, 1, 1}}}},
                {{"terms", {{512, 0, 0}}}},
                {{"points", {{2, 16, 1}, {4, 16, 2}}}},
                {{"terms", {{1, 1, 1}}}}};
  const Json products = {{"products", {{0, 1, 2, 2}}}};
  s["micro_batches"] = {products, Json::object()};
  Json loss = g["micro_batches"][0]["ops"][2];
  loss["out"] = {5, 10};
  loss["frees"] = {4, 10};
  loss["launches"] = 2;
  const Json runs = {{"runs", {{{"at", 2}, {"count", 1}, {"ops", {loss}}}}}};
  s["programs"] = {{{"sizes", {{4, 16}}}, {"micro_batches", {runs, runs}}}};
  g["scale"] = s;
  return g;
}

model::ModelSpec spec_of(const Json& g) { return model::parse_config(g.dump(), "f.json", "f"); }

passes::StepProgram planned(const OptionList& options) {
  const model::ModelSpec spec = spec_of(scaled_graph());
  return passes::build_step(spec, advise::resolve(spec, options).config);
}

std::int64_t peak(OptionList options) {
  options.insert(options.begin(), {{"--optimizer", "sgd"}, {"--no-hold-output", ""}});
  const passes::StepProgram step = planned(options);
  simulate::MemoryModel exact;
  exact.round_to_512 = exact.workspaces = false;
  return simulate::walk_memory(step, passes::make_schedule(step), exact).peak;
}

std::string refusal(const std::function<void(Json&)>& change) {
  Json g = scaled_graph();
  change(g);
  graph::Graph scanned;
  const bool taken = graph::scan_graph(g.dump(), scanned);
  try {
    const graph::Graph read = graph::read_by_names(g.dump(), "f.json");
    CHECK((!taken || scanned == read));
    return "accepted";
  } catch (const UserError& error) {
    CHECK_FALSE(taken);
    return error.what();
  }
}

std::string not_planned(const Json& g, const OptionList& options) {
  try {
    const model::ModelSpec spec = spec_of(g);
    static_cast<void>(advise::plan(spec, advise::resolve(spec, options).config, false));
  } catch (const UserError& error) {
    return error.what();
  }
  return "planned";
}

}  // namespace

TEST_CASE("a graph of several sizes is scanned, to what reading it by names gives") {
  const std::string text = scaled_graph().dump();
  for (const std::string& error : schema_errors(text)) FAIL_CHECK(error);
  graph::Graph scanned;
  REQUIRE(graph::scan_graph(text, scanned));
  CHECK(scanned == graph::read_by_names(text, "f.json"));
  REQUIRE(scanned.scale.has_value());
  CHECK(scanned.scale->programs.size() == 1);
}

TEST_CASE(
    "forms: polynomials of the batch and of a rounded sequence, and what lies between points") {
  using graph::Form;
  const auto value = [](const Form& form, std::int64_t b, std::int64_t s) {
    return graph::value_of(form, {b, s}, {.terms = {{1, 1, 1}}}).value_or(-1);
  };
  // 196 patches of 16 x 16 and one token more, of images of 224 to 239 pixels.
  const Form patches{.terms = {{1, 1, 2}, {256, 1, 0}}, .over = 256, .floor = 16};
  CHECK(value(patches, 3, 224) == 3 * (196 + 1));
  CHECK(value(patches, 3, 239) == 3 * (196 + 1));
  CHECK(value(patches, 1, 240) == 225 + 1);
  const Form padded{.terms = {{4, 1, 1}}, .ceil = 32};
  CHECK(value(padded, 2, 33) == 4 * 2 * 64);
  CHECK(value({.terms = {{1, 0, 1}}, .over = 2}, 1, 5) == 3);    // no half bytes
  CHECK(value({.terms = {{-1, 0, 1}}}, 1, 5) == -1);             // nothing is below none
  CHECK(value({.terms = {{1, 8, 8}}}, 1 << 20, 1 << 20) == -1);  // 2^320
  // Reduce.cuh: a block for 64 tokens, 235 of them fill the device, 1,024 tokens each at the most.
  const Form sum{.reduction = {{589824, 64, 235}}};
  CHECK(value(sum, 8, 257) == 589824 * 33);
  CHECK(value(sum, 64, 256) == 589824 * 235);
  CHECK(value(sum, 128, 2048) == 589824 * 256);
  const Form points{.points = {{{1, 100}, 10}, {{2, 100}, 30}, {{8, 100}, 30}}};
  CHECK(value(points, 1, 50) == 10);
  CHECK(value(points, 1, 150) == 20);
  CHECK(value(points, 4, 100) == 30);
  CHECK(value(points, 100, 100) == 30);
}

TEST_CASE("at another size a graph's activations are others, its weights and their gradients not") {
  // Weights 2, a weight's gradient 1; input, h1 and both gradients of activations: k MiB each; the
  // loss.
  const auto expected = [](std::int64_t k) { return (3 + 4 * k) * mib + 4; };
  CHECK(peak({}) == expected(1));
  CHECK(peak({{"--seq", "32"}}) == expected(2));
  CHECK(peak({{"--seq", "96"}}) == expected(6));
  CHECK(peak({{"--batch", "6"}, {"--seq", "32"}}) == expected(6));
  CHECK(peak({{"--batch", "6"}, {"--seq", "32"}, {"--ac", "full"}}) == expected(6));
  // 4 x 16: weights 2; input, h1, h2 of 2 each and the scratch: 13, less than 3 + 4 * 2 + ... of
  // none: while the loss is made.
  CHECK(peak({{"--batch", "4"}}) == 2 * mib + 3 * 2 * mib + 5 * mib + 4);
}

TEST_CASE("an op that is another at some sizes is that of the nearest captured one") {
  const auto launches = [](const OptionList& options) {
    std::int64_t found = 0;
    for (const ir::Op& op : planned(options).program.ops)
      if (op.kind == ir::OpKind::captured && op.phase == ir::Phase::loss)
        found += ir::attributes<ir::Captured>(op).launches;
    return found;
  };
  CHECK(launches({}) == 1);
  CHECK(launches({{"--seq", "32"}}) == 1);
  CHECK(launches({{"--batch", "4"}}) == 2);
  CHECK(launches({{"--batch", "64"}}) == 2);
  CHECK(launches({{"--seq", "64"}}) == 1);
  CHECK(graph::at_size(graph::read_graph(scaled_graph().dump(), "f"), {6, 32})
            .micro_batches[0]
            .ops[0]
            .product->rows == 32 * 6 * 32);
}

TEST_CASE("a size that a graph does not have is refused with the reason and the way out") {
  const OptionList batch{{"--batch", "3"}}, seq{{"--seq", "24"}};
  CHECK(not_planned(scaled_graph(), batch) == "planned");
  CHECK(not_planned(scaled_graph(), seq) == "planned");
  CHECK(not_planned(small_graph(), batch).find("--scale batch,seq") != std::string::npos);
  CHECK(not_planned(scaled_graph(), {{"--seq", "20"}}).find("differ by multiples of 8") !=
        std::string::npos);
  CHECK(not_planned(scaled_graph(), {{"--batch", "1"}}).find("below a batch of 2") !=
        std::string::npos);
  Json g = scaled_graph();
  g["scale"]["directions"] = {"batch"};
  g["scale"]["refused"]["seq"] = "at 2 x 32 aten::cumsum runs once more";
  CHECK(not_planned(g, batch) == "planned");
  CHECK(not_planned(g, seq).find("aten::cumsum runs once more") != std::string::npos);
}

TEST_CASE("beyond the captured sizes a plan says so") {
  const model::ModelSpec spec = spec_of(scaled_graph());
  const auto warned = [&](const OptionList& options) {
    for (const std::string& one :
         advise::model_warnings(spec, advise::resolve(spec, options).config))
      if (one.find("extrapolated") != std::string::npos) return true;
    return false;
  };
  CHECK_FALSE(warned({}));
  CHECK_FALSE(warned({{"--batch", "3"}}));
  CHECK(warned({{"--batch", "5"}}));
  CHECK(warned({{"--seq", "40"}}));
}

TEST_CASE("the micro-batch of a graph is swept, and the largest batch and sequence are found") {
  const model::ModelSpec spec = spec_of(scaled_graph());
  const advise::Resolved resolved = advise::resolve(spec, {{"--batch", "8"}});
  advise::Space space = advise::space_around(spec, resolved.config, resolved.options);
  space.set("--ac", {"none"});
  space.set("--batch", {"1", "2", "4", "8"});
  CHECK(advise::sweep(spec, resolved.config, space).rows.size() == 3);  // 1 is another program
  for (const auto sought : {advise::Sought::batch, advise::Sought::seq}) {
    const advise::Largest found = advise::largest(sought, spec, resolved.config, space);
    REQUIRE(!found.found.empty());
    CHECK(found.found.front().value > 1000);  // an H100 has room for 2^17 MiB and not for these
    CHECK(found.found.front().profile.fit.fits);
  }
}

TEST_CASE("a section of sizes that cannot be is refused with its place") {
  CHECK(refusal([](Json&) {}) == "accepted");
  const auto says = [](const std::function<void(Json&)>& change, const std::string& what) {
    INFO(what);
    const std::string said = refusal(change);
    INFO(said);
    CHECK(said.find("f.json") == 0);
    CHECK(said.find(what) != std::string::npos);
  };
  const auto scale = [](Json& g) -> Json& { return g["scale"]; };
  const auto run = [](Json& g) -> Json& {
    return g["scale"]["programs"][0]["micro_batches"][0]["runs"][0];
  };
  says([](Json& g) { g.erase("scale"); }, "\"scale\" is missing");
  says([](Json& g) { g["schema"] = "ac-advisor/graph/1"; }, "\"scale\"");
  says([&](Json& g) { scale(g)["more"] = 1; }, "more");
  says([&](Json& g) { scale(g).erase("forms"); }, "forms");
  says([&](Json& g) { scale(g)["directions"] = {"batch", "batch"}; }, "directions[1]");
  says([&](Json& g) { scale(g)["directions"] = {"up"}; }, "directions[0]");
  says([&](Json& g) { scale(g)["batch_from"] = 0; }, "scale.batch_from");
  says([&](Json& g) { scale(g)["seq_step"] = 0; }, "scale.seq_step");
  says([&](Json& g) { scale(g)["sizes"] = Json::array(); }, "scale.sizes");
  says([&](Json& g) { scale(g)["sizes"][0] = {3, 16}; }, "must begin with the graph's");
  says([&](Json& g) { scale(g)["sizes"][1] = {0, 16}; }, "scale.sizes[1]");
  says([&](Json& g) { scale(g)["sizes"][1] = {2}; }, "sizes[1]");
  says([&](Json& g) { scale(g)["storages"][0] = {11, 0}; }, "scale.storages[0]");
  says([&](Json& g) { scale(g)["storages"][0] = {2, 5}; }, "scale.storages[0]");
  says([&](Json& g) { scale(g)["tensors"][0] = {2, 2, 0}; }, "scale.tensors[0]");
  says([&](Json& g) { scale(g)["forms"][0] = Json::object(); }, "forms[0]");
  says([&](Json& g) { scale(g)["forms"][0]["reduction"] = {1, 1, 1}; }, "forms[0]");
  says([&](Json& g) { scale(g)["forms"][0] = {{"reduction", {1, 0, 1}}}; }, "forms[0].reduction");
  says([&](Json& g) { scale(g)["forms"][0] = {{"reduction", {1, 1}}}; }, "forms[0].reduction");
  says([&](Json& g) { scale(g)["forms"][0]["over"] = 0; }, "scale.forms[0].over");
  says([&](Json& g) { scale(g)["forms"][0]["floor"] = 0; }, "scale.forms[0]");
  says([&](Json& g) { scale(g)["forms"][0]["terms"] = Json::array(); }, "scale.forms[0]");
  says([&](Json& g) { scale(g)["forms"][0]["terms"][0] = {1, 9, 0}; }, "scale.forms[0].terms");
  says([&](Json& g) { scale(g)["tokens"] = 3; }, "scale.tokens");
  says([&](Json& g) { scale(g)["tokens"] = 5; }, "scale.tokens");
  says([&](Json& g) { scale(g)["forms"][3]["points"][1] = {4, 16, -1}; }, "points[1]");
  says([&](Json& g) { scale(g)["micro_batches"][0]["products"][0] = {2, 1, 1, 1}; }, "no product");
  says([&](Json& g) { scale(g)["micro_batches"][0]["launches"] = {{9, 1}}; }, "launches");
  says([&](Json& g) { scale(g)["micro_batches"].erase(1); }, "micro_batches");
  says([&](Json& g) { scale(g)["programs"][0]["sizes"] = Json::array(); }, "programs[0].sizes");
  says([&](Json& g) { run(g)["at"] = 6; }, "runs[0]");
  says([&](Json& g) { run(g)["count"] = 9; }, "runs[0]");
  says([&](Json& g) { run(g)["ops"][0]["out"] = {5, 99}; }, "out");
  says([&](Json& g) { run(g)["ops"][0]["out"] = {10}; }, "op 3 of the program: reads storage 5");
  says(
      [&](Json& g) {
        run(g)["ops"].push_back({{"op", "aten::add"}, {"phase", "forward"}});
      },
      "comes after a later phase");
  says([&](Json& g) { run(g)["ops"] = Json::array(); }, "not alive");
  // Scratch that is not freed lives as long as the micro-batch.
  CHECK(refusal([&](Json& g) { run(g)["ops"][0]["frees"] = {4}; }) == "accepted");
}

TEST_CASE("a size at which something would be too large is no size") {
  Json g = scaled_graph();
  g["scale"]["forms"][0]["terms"][0] = {32768, 8, 8};
  CHECK(not_planned(g, {{"--batch", "4096"}, {"--seq", "4096"}}).find("larger than any") !=
        std::string::npos);
}

}  // namespace ac_advisor::test
