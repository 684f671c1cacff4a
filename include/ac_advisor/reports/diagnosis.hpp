#pragma once

#include <string>

#include "ac_advisor/reports/reports.hpp"
#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/machine.hpp"

/// Renderers of what traces say, and of what a machine can measure.
namespace ac_advisor::reports {

/// Version of the JSON of a diagnosis.
inline constexpr const char* diagnosis_schema = "ac-advisor/diagnosis/1";

[[nodiscard]] std::string table(const trace::Diagnosis& diagnosis, const Style& style);
[[nodiscard]] std::string markdown(const trace::Diagnosis& diagnosis);
/// The findings, then the parts of the overhead: one row each.
[[nodiscard]] std::string csv(const trace::Diagnosis& diagnosis);
[[nodiscard]] std::string json(const trace::Diagnosis& diagnosis);
/// Reads what `json` wrote. Throws UserError naming `origin` and the field.
[[nodiscard]] trace::Diagnosis diagnosis_from_json(const std::string& text,
                                                   const std::string& origin);

[[nodiscard]] std::string table(const trace::Examination& examination, const Style& style);
[[nodiscard]] std::string markdown(const trace::Examination& examination);
[[nodiscard]] std::string csv(const trace::Examination& examination);
[[nodiscard]] std::string json(const trace::Examination& examination);

/// Text of several lines without what a terminal would obey.
[[nodiscard]] std::string printable_lines(const std::string& text);

}  // namespace ac_advisor::reports
