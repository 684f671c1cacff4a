#pragma once

#include <string>
#include <vector>

#include "ac_advisor/trace/diagnose.hpp"
#include "ac_advisor/trace/summary.hpp"
#include "reports/html_data.hpp"

/// The bar charts of a page about traces.
namespace ac_advisor::reports {

struct Bars {
  struct Bar {
    std::string name;
    double value = 0;
    std::string word;  ///< the value, as it is shown
    std::string mark;  ///< class of report.css: its colour
  };
  std::string title;
  std::vector<Bar> bars;
};

[[nodiscard]] std::vector<Bars> trace_bars(const trace::Summary& summary);
[[nodiscard]] std::vector<Bars> trace_bars(const trace::Ranks& ranks);
[[nodiscard]] std::vector<Bars> trace_bars(const trace::Diagnosis& diagnosis);
[[nodiscard]] Json bars_json(const Bars& bars);

}  // namespace ac_advisor::reports
