#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "ac_advisor/model/error.hpp"
#include "ac_advisor/reports/reports.hpp"
#include "reports/small_sweep.hpp"

using namespace ac_advisor;
using nlohmann::json;

TEST_CASE("a sweep's JSON reads back as the same sweep") {
  const advise::Sweep sweep = test::small_sweep({{"--batch", "2"}});
  const std::string text = reports::json(sweep);
  const advise::Sweep read = reports::sweep_from_json(text, "sweep.json");
  CHECK(reports::json(read) == text);
  CHECK(read.base == sweep.base);
  CHECK(read.model == sweep.model);
  CHECK(read.recommended == sweep.recommended);
  REQUIRE(read.savings.size() == sweep.savings.size());
  CHECK(read.savings.back().config == sweep.savings.back().config);
}

TEST_CASE("advise's JSON has the keys of the contract (design, section 8)") {
  const json j = json::parse(reports::json(test::small_sweep()));
  REQUIRE_FALSE(j["rows"].empty());
  const json& row = j["rows"][0];
  for (const char* path :
       {"/config/ac", "/memory/peak_allocated_bytes", "/memory/peak_reserved_bytes",
        "/memory/at_peak/activations", "/kernels/launches/forward", "/time/step_seconds", "/fits",
        "/rank", "/pareto"}) {
    CAPTURE(path);
    CHECK(row.contains(json::json_pointer(path)));
  }
  CHECK(row["rank"] == 1);
  CHECK(j["savings"][0]["technique"] == "Baseline");
  CHECK(j["savings"][0].contains("peak_bytes"));
}

TEST_CASE("the difference of a sweep and itself is nothing") {
  const advise::Sweep sweep = test::small_sweep();
  const reports::SweepDiff d = reports::diff(sweep, sweep);
  CHECK(d.fields.empty());
  CHECK(d.rows.size() == sweep.rows.size());
  for (const reports::RowChange& row : d.rows) {
    CHECK((row.a && row.b));
    CHECK(row.delta() == 0);
  }
}

TEST_CASE("the difference of two sweeps names the option and matches rows by label") {
  advise::Sweep a = test::small_sweep(), b = a;
  b.base.run.dropout = 0.25;
  b.rows.front().profile.memory.peak_allocated += 4096;
  b.rows.back().label = "something else";
  const reports::SweepDiff d = reports::diff(a, b);
  REQUIRE(d.fields.size() == 1);
  CHECK(d.fields[0].field == "dropout");
  CHECK(d.fields[0].b == "0.25");
  CHECK(d.rows.front().label == a.rows.front().label);
  CHECK(d.rows.front().delta() == 4096);
  CHECK(d.rows.size() == a.rows.size() + 1);
}

TEST_CASE("what is not a sweep is refused with its place") {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(reports::sweep_from_json(text, "sweep.json"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  json j = json::parse(reports::json(test::small_sweep()));
  CHECK(error_of("{\"schema\":").find("sweep.json") == 0);
  CHECK(error_of("[]").find("sweep.json") == 0);
  j["rows"][1]["memory"]["peak_op"] = 3;
  const std::string error = error_of(j.dump());
  CHECK(error.find("rows[1]") != std::string::npos);
  CHECK(error.find("memory.peak_op") != std::string::npos);
}
