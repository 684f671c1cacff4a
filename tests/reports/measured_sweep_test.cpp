// A sweep that several jobs have measured, put together again.
#include "ac_advisor/reports/measured_sweep.hpp"

#include <doctest/doctest.h>

#include "ac_advisor/advise/advise.hpp"
#include "ac_advisor/model/error.hpp"
#include "ac_advisor/model/options.hpp"
#include "ac_advisor/model/spec.hpp"

namespace ac_advisor::test {
namespace {

using reports::Measurement;
using reports::Measurements;

Measurement row(const std::string& label, const OptionList& options = {}) {
  const profile::Profile profile =
      advise::plan(model::load_model("tiny-llama"), resolve_options(options));
  return {label, profile, profile};
}

Measurements whole() {
  return {{row("a"), row("b"), row("c"), row("d"), row("e")}, {row("first"), row("second")}, {}};
}

/// As its job writes it, read back.
Measurements part(const Measurements& all, std::int64_t index, std::int64_t of) {
  const reports::SweepPart place{index, of};
  const Measurements own{reports::own_part(all.rows, place), reports::own_part(all.savings, place),
                         place};
  const std::string text = reports::json(own);
  CHECK(reports::is_measured_sweep(text));
  return reports::read_measured_sweep(text, "part.json");
}

std::string refused(const std::vector<Measurements>& parts) {
  try {
    static_cast<void>(reports::joined(parts));
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string labels(const std::vector<Measurement>& rows) {
  std::string text;
  for (const Measurement& one : rows) text += one.label + " ";
  return text;
}

}  // namespace

TEST_CASE("parts of a measured sweep are the sweep, in whatever order they are given") {
  const Measurements all = whole();
  for (const std::int64_t of : {1, 2, 3, 7}) {
    std::vector<Measurements> parts;
    for (std::int64_t i = of; i-- > 0;) parts.push_back(part(all, i, of));
    const Measurements back = reports::joined(parts);
    CHECK(labels(back.rows) == "a b c d e ");
    CHECK(labels(back.savings) == "first second ");
    CHECK(reports::json(back) == reports::json(all));
  }
  CHECK(labels(part(all, 1, 2).rows) == "b d ");
}

TEST_CASE("a part that is missing, there twice or of another sweep is named") {
  const Measurements all = whole();
  CHECK(refused({part(all, 0, 3), part(all, 2, 3)}).starts_with("part 1 of 3 is missing"));
  CHECK(refused({part(all, 0, 2), part(all, 0, 2)}).starts_with("part 0 of 2 is there twice"));
  CHECK(refused({part(all, 0, 2), part(all, 1, 3)}).starts_with("parts of 2 and of 3"));
  Measurements other = all;
  for (Measurement& one : other.rows) one = row(one.label, {{"--batch", "2"}});
  CHECK(refused({part(all, 0, 2), part(other, 1, 2)}).find("not of one sweep") !=
        std::string::npos);
  Measurements shorter = all;
  shorter.rows.resize(1);
  CHECK(refused({part(shorter, 0, 2), part(all, 1, 2)}).find("too few configurations") !=
        std::string::npos);
}

}  // namespace ac_advisor::test
