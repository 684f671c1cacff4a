#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/advise/explain.hpp"
#include "ac_advisor/advise/module_costs.hpp"
#include "ac_advisor/advise/resolve.hpp"
#include "ac_advisor/graph/graph.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/passes/passes.hpp"
#include "ac_advisor/passes/schedule.hpp"
#include "ac_advisor/simulate/memory.hpp"
#include "graph/scan_graph.hpp"
#include "graph/small_graph.hpp"

namespace ac_advisor::test {
namespace {

std::string refusal(const std::function<void(Json&)>& change) {
  Json g = small_graph();
  change(g);
  graph::Graph scanned;
  const bool taken = graph::scan_graph(g.dump(), scanned);
  try {
    const graph::Graph read = graph::read_by_names(g.dump(), "f.json");
    if (taken) CHECK(scanned == read);
  } catch (const UserError&) {
    CHECK_FALSE(taken);
  }
  try {
    static_cast<void>(graph::read_graph(g.dump(), "f.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

Json& op(Json& g, int number) {
  return g["micro_batches"][0]["ops"][static_cast<std::size_t>(number)];
}

/// Bytes alive while the op at the peak runs, without rounding or optimizer.
std::int64_t peak(const OptionList& options) {
  const model::ModelSpec spec = model::parse_config(small_graph().dump(), "f.json", "f");
  OptionList all{{"--optimizer", "sgd"}, {"--no-hold-output", ""}};
  all.insert(all.end(), options.begin(), options.end());
  const passes::StepProgram step = passes::build_step(spec, advise::resolve(spec, all).config);
  simulate::MemoryModel exact;
  exact.round_to_512 = exact.workspaces = false;
  return simulate::walk_memory(step, passes::make_schedule(step), exact).peak;
}

passes::StepProgram planned(const OptionList& options) {
  const model::ModelSpec spec = model::parse_config(small_graph().dump(), "f.json", "f");
  return passes::build_step(spec, advise::resolve(spec, options).config);
}

/// Places of the ops of a kind in the program.
std::vector<std::size_t> places(const passes::StepProgram& step, ir::OpKind kind) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < step.program.ops.size(); ++i)
    if (step.program.ops[i].kind == kind) found.push_back(i);
  return found;
}

}  // namespace

TEST_CASE("a graph as it is captured is scanned, to what reading it by names gives") {
  const std::string text = small_graph().dump();
  graph::Graph scanned;
  REQUIRE(graph::scan_graph(text, scanned));
  CHECK(scanned == graph::read_by_names(text, "f.json"));
  graph::Graph spaced;
  CHECK(graph::scan_graph(small_graph().dump(2) + "\n", spaced));
  CHECK(spaced == scanned);
}

TEST_CASE("what is unusual in a graph is read by names: escapes, keys that nobody knows") {
  const auto taken = [](const std::function<void(Json&)>& change) {
    Json g = small_graph();
    change(g);
    graph::Graph scanned;
    const bool done = graph::scan_graph(g.dump(), scanned);
    CHECK_NOTHROW(static_cast<void>(graph::read_graph(g.dump(), "f.json")));
    return done;
  };
  CHECK(taken([](Json&) {}));
  CHECK_FALSE(taken([](Json& g) { g["name"] = "a \"quoted\" name"; }));
  CHECK_FALSE(taken([](Json& g) { g["name"] = "caf\u00e9"; }));
  CHECK_FALSE(taken([](Json& g) { g["made_by"]["host"] = "h"; }));
  CHECK(taken([](Json& g) { op(g, 0)["flops"] = 17179869184.0; }));
  CHECK(taken([](Json& g) { op(g, 0)["flops"] = 1.5e10; }));
}

TEST_CASE("what is no JSON is no graph, however near it comes") {
  const std::string text = small_graph().dump();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    REQUIRE(at != std::string::npos);
    return other.replace(at, from.size(), to);
  };
  const std::string texts[] = {changed("\"batch\":2", "\"batch\":02"),
                               changed("\"batch\":2", "\"batch\":2.0"),
                               changed("\"batch\":2", "\"batch\":2e0"),
                               changed("\"batch\":2", "\"batch\":+2"),
                               changed("\"batch\":2", "\"batch\":18446744073709551618"),
                               changed("\"batch\":2", "\"batch\":2,\"batch\":2"),
                               changed("\"trained\":true", "\"trained\":truer"),
                               changed("\"launches\":1", "\"launches\":1,\"flops\":01.5"),
                               changed("\"launches\":1", "\"launches\":1,\"flops\":1."),
                               changed("\"launches\":1", "\"launches\":1,\"flops\":1.e3"),
                               changed("\"launches\":1", "\"launches\":1,\"flops\":1e"),
                               changed("\"others\":[]", "\"others\":[,]"),
                               changed("\"others\":[]", "\"others\":[1,]"),
                               text + "x",
                               text + "{}",
                               text.substr(0, text.size() - 1)};
  for (const std::string& one : texts) {
    CAPTURE(one);
    graph::Graph scanned;
    CHECK_FALSE(graph::scan_graph(one, scanned));
    CHECK_THROWS_AS(static_cast<void>(graph::read_graph(one, "f.json")), UserError);
  }
}

TEST_CASE("a graph's blocks are FSDP2's units: gathered for each pass, reduced after backward") {
  const passes::StepProgram step = planned({{"--world", "4"}, {"--shard", "fsdp2"}});
  for (const ir::ValueId v : step.resident)
    if (step.program.storage(step.program.storage_of(v)).role == ir::Role::parameter)
      CHECK(step.program.storage(step.program.storage_of(v)).bytes == (1 << 20) / 4);
  const auto gathers = places(step, ir::OpKind::all_gather);
  REQUIRE(gathers.size() == 4);
  CHECK(places(step, ir::OpKind::reduce_scatter).size() == 2);
  // The loss is no part of the module: its gradient is there before a block is gathered again.
  const auto& ops = step.program.ops;
  const auto seed = std::find_if(ops.begin(), ops.end(), [](const ir::Op& op) {
    return op.phase == ir::Phase::backward && op.kind == ir::OpKind::captured;
  });
  CHECK(gathers[1] < static_cast<std::size_t>(seed - ops.begin()));
  CHECK(gathers[2] > static_cast<std::size_t>(seed - ops.begin()));
  // A backward that adds to sharded gradients is the first micro-batch's again.
  CHECK(places(planned({{"--world", "4"}, {"--shard", "fsdp2"}, {"--grad-accum", "2"}}),
               ir::OpKind::accumulate_inplace)
            .size() == 2);
}

TEST_CASE("a graph's gradients go into DDP's buckets, and a second micro-batch's are added there") {
  const OptionList ddp{{"--world", "4"},
                       {"--shard", "ddp"},
                       {"--grad-accum", "2"},
                       {"--gradient-as-bucket-view", ""}};
  const passes::StepProgram step = planned(ddp);  // a bucket each: both have 1 MiB
  CHECK(places(step, ir::OpKind::bucket_copy).size() == 2);
  CHECK(places(step, ir::OpKind::accumulate_inplace).size() == 2);
  CHECK(places(step, ir::OpKind::div).size() == 2);  // by the world, where nothing is copied
  CHECK(places(step, ir::OpKind::all_reduce).size() == 4);
  OptionList waiting = ddp;
  waiting.emplace_back("--no-sync", "");
  CHECK(places(planned(waiting), ir::OpKind::all_reduce).size() == 2);
}

TEST_CASE("a graph is a MODEL: its parameters, its blocks, its sizes") {
  const model::ModelSpec spec = model::parse_config(small_graph().dump(), "f.json", "f");
  REQUIRE(spec.graph != nullptr);
  CHECK(spec.name == "two products");
  CHECK(spec.layers == 2);
  CHECK(model::parameter_count(spec) == 2 * 1024 * 512);
  const StepConfig config = advise::resolve(spec, {}).config;
  CHECK(config.run.batch == 2);
  CHECK(config.run.seq == 16);
}

TEST_CASE("a graph's peak is what its storages' lives say") {
  constexpr std::int64_t mib = 1 << 20;
  // Weights and input 3; at the second product's backward h1, both gradients and its own: 4; the
  // loss. h2 is gone since the loss.
  CHECK(peak({}) == 7 * mib + 4);
  // Recomputed: h1 is a block's input and a checkpoint keeps it; nothing else was saved.
  CHECK(peak({{"--ac", "full"}}) == 7 * mib + 4);
  // Both blocks in one checkpoint: h1 is dropped in forward and made again before it is read.
  CHECK(peak({{"--ac", "grouped:2"}}) == 7 * mib + 4);
  // Both gradients of the first micro-batch are there while the second runs, which makes none.
  CHECK(peak({{"--grad-accum", "2"}}) == 8 * mib + 4);
}

TEST_CASE("a checkpoint of both products runs the first again in backward") {
  const model::ModelSpec spec = model::parse_config(small_graph().dump(), "f.json", "f");
  const auto recomputed = [&](const char* mode) {
    const auto step = passes::build_step(spec, advise::resolve(spec, {{"--ac", mode}}).config);
    std::int64_t ops = 0;
    for (const ir::Op& o : step.program.ops)
      ops += o.phase == ir::Phase::recompute && o.kind != ir::OpKind::hold ? 1 : 0;
    return ops;
  };
  CHECK(recomputed("none") == 0);
  CHECK(recomputed("full") == 0);       // each block's product saves the block's input alone
  CHECK(recomputed("grouped:2") == 1);  // h1, and not h2, which nobody saved
}

TEST_CASE("a graph is explained and swept like a model, by the modes that it can take") {
  const model::ModelSpec spec = model::parse_config(small_graph().dump(), "f.json", "f");
  const advise::Resolved resolved = advise::resolve(spec, {{"--ac", "full"}});
  const StepConfig& config = resolved.config;
  CHECK(!advise::explain_mode(spec, config).empty());
  CHECK_NOTHROW(static_cast<void>(advise::module_costs(spec, config)));
  advise::Space space = advise::space_around(spec, config, resolved.options);
  space.set("--ac", {"none", "full", "grouped:2"});
  const advise::Sweep sweep = advise::sweep(spec, config, space);
  CHECK(sweep.rows.size() == 3);
  REQUIRE(sweep.not_planned.size() == 2);
  CHECK(sweep.not_planned[0].technique == "+ LC-CE");
  CHECK(sweep.not_planned[1].technique == "compiled blocks");
}

TEST_CASE("a graph that cannot be is refused with its place") {
  CHECK(refusal([](Json&) {}) == "accepted");
  const auto says = [](const std::function<void(Json&)>& change, const char* what) {
    INFO(what);
    const std::string said = refusal(change);
    INFO(said);
    CHECK(said.find("f.json") == 0);
    CHECK(said.find(what) != std::string::npos);
  };
  says([](Json& g) { g["schema"] = "ac-advisor/graph/3"; }, "schema");
  says([](Json& g) { g.erase("tensors"); }, "\"tensors\" is missing");
  says([](Json& g) { g["moduls"] = 1; }, "moduls");
  says([](Json& g) { g["batch"] = 0; }, "\"batch\"");
  says([](Json& g) { g["modules"] = Json::array(); }, "\"modules\"");
  says([](Json& g) { g["blocks"] = {4}; }, "\"blocks\": 4 must be a whole number below 4");
  says([](Json& g) { g["storages"][0] = -1; }, "storages");
  says([](Json& g) { g["storages"][0] = std::int64_t{1} << 60; }, "storages");
  says([](Json& g) { g["tensors"][0]["storage"] = 10; }, "tensors");
  says([](Json& g) { g["tensors"][0]["dtype"] = "float"; }, "dtype");
  says([](Json& g) { g["tensors"][0]["shape"] = {1 << 30, 1 << 30}; }, "shape");
  says([](Json& g) { g["parameters"][1]["tensor"] = -2; }, "parameters");
  says([](Json& g) { g["micro_batches"].erase(1); }, "micro_batches");
  says([](Json& g) { op(g, 0)["phase"] = "later"; }, "phase");
  says([](Json& g) { op(g, 1)["phase"] = "backward"; }, "phase");
  says([](Json& g) { op(g, 0)["module"] = 9; }, "module");
  says([](Json& g) { op(g, 0)["in"] = {4}; }, "reads storage 4, which is not alive here");
  says([](Json& g) { op(g, 1)["out"] = {3}; }, "makes storage 3, which is alive already");
  says([](Json& g) { op(g, 0)["out"] = {2}; }, "makes storage 2, which is alive already");
  says([](Json& g) { op(g, 0)["frees"] = {6}; }, "frees storage 6, which is not alive here");
  says([](Json& g) { op(g, 0)["drops"] = {6}; }, "drops storage 6, which is not alive here");
  says([](Json& g) { op(g, 0)["in"] = {1.5}; }, "must be a whole number");
  says([](Json& g) { op(g, 0)["in"] = "all"; }, "must be a list");
  says([](Json& g) { op(g, 0)["product"] = {1, 2}; }, "product");
  says([](Json& g) { op(g, 0)["flops"] = -1; }, "flops");
  says([](Json& g) { op(g, 0)["launches"] = -1; }, "launches");
  says([](Json& g) { op(g, 0)["forward"] = 0; }, "forward");
  says([](Json& g) { op(g, 4)["forward"] = 4; }, "forward");
  says([](Json& g) { op(g, 5)["forward"] = 3; }, "is an op of the backward");
  says([](Json& g) { g["micro_batches"][0]["loss"] = 3; }, "loss");
  says([](Json& g) { g["micro_batches"][0]["outputs"] = {2}; }, "outputs");
  says([](Json& g) { g["micro_batches"][0]["gradients"] = {{0, 7, 5}}; }, "not alive at the end");
  says([](Json& g) { g["micro_batches"][0]["gradients"] = {{2, 9, 5}}; }, "gradients[0][0]");
  says([](Json& g) { g["micro_batches"][0]["gradients"] = {{0, 9, 6}}; }, "gradients[0][2]");
  says([](Json& g) { g["micro_batches"][0]["gradients"] = {{0, 9}}; }, "and an op's");
  says([](Json& g) { g["micro_batches"][0]["gradients"] = {{0, 9, 2}}; }, "none of the backward");
  CHECK_THROWS_AS(static_cast<void>(graph::read_graph("{\"schema\": \"ac-advisor/graph/1\"", "f")),
                  UserError);
}

}  // namespace ac_advisor::test
