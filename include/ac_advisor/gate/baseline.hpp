#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ac_advisor/gate/figure.hpp"
#include "ac_advisor/gate/gate_file.hpp"
#include "ac_advisor/profile/config_fields.hpp"
#include "ac_advisor/profile/profile.hpp"

namespace ac_advisor::gate {

inline constexpr const char* baseline_schema = "ac-advisor/baseline/1";

/// What must be the same for two sets of figures to be compared.
struct Fingerprint {
  std::string profile_schema;
  std::string op_table;  ///< version of the tool and a hash over its op table
  std::string source;    ///< simulated or measured
  std::string device;
  /// Device::figures, of a plan or an emulated run; empty: measured, of a device that is built in,
  /// or written before it was kept.
  std::string device_figures;
  std::vector<profile::Field> model;   ///< without its name, which is its folder's
  std::vector<profile::Field> config;  ///< every option, resolved
};

/// What the user had written, to name the cause of a difference in the user's own words.
struct Written {
  std::string model;                           ///< MODEL of the case
  std::map<std::string, std::string> fields;   ///< of config.json: "text_config.hidden_size": "64"
  std::map<std::string, std::string> options;  ///< "ac": "full"
};

/// What a baseline file keeps of a profile; also what a case has now, to compare with it.
struct Baseline {
  std::string schema = baseline_schema;  ///< another one: nothing else was read
  std::string case_name;
  Fingerprint fingerprint;
  Written written;
  Figures figures{};
  /// What is live at the peak by category and by module (all blocks as one), launches and seconds
  /// by phase; nothing else of it is set.
  profile::Profile parts;
};

/// "0.1.0-8c7d…": the tool's version and a hash over every row of its op table.
[[nodiscard]] const std::string& op_table_version();

/// `fields`: of the model's config.json, see `read_model_fields`.
[[nodiscard]] Baseline make_baseline(const Case& c, const profile::Profile& profile,
                                     std::map<std::string, std::string> fields);

[[nodiscard]] std::string to_json(const Baseline& baseline);
/// Throws UserError naming `origin` and the field. Another version of the schema is no error here:
/// only `schema` is set then.
[[nodiscard]] Baseline read_baseline(const std::string& text, const std::string& origin);

}  // namespace ac_advisor::gate
