#pragma once

#include <string>

#include "ac_advisor/reports/reports.hpp"
#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/machine.hpp"

/// Renderers of what traces say, and of what a machine can measure.
namespace ac_advisor::reports {

[[nodiscard]] std::string table(const trace::Diagnosis& diagnosis, const Style& style);
[[nodiscard]] std::string markdown(const trace::Diagnosis& diagnosis);
/// The findings, then the parts of the overhead: one row each.
[[nodiscard]] std::string csv(const trace::Diagnosis& diagnosis);
[[nodiscard]] std::string json(const trace::Diagnosis& diagnosis);

[[nodiscard]] std::string table(const trace::Examination& examination, const Style& style);
[[nodiscard]] std::string markdown(const trace::Examination& examination);
[[nodiscard]] std::string csv(const trace::Examination& examination);
[[nodiscard]] std::string json(const trace::Examination& examination);

/// What one trace says: phases, the kernels and ranges that take most, the longest gaps.
[[nodiscard]] std::string table(const trace::Side& side, const trace::Trace& trace,
                                const Style& style);

/// Text of several lines without what a terminal would obey.
[[nodiscard]] std::string printable_lines(const std::string& text);

}  // namespace ac_advisor::reports
