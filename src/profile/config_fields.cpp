// The option table as fields of JSON.
#include "ac_advisor/profile/config_fields.hpp"

#include <fmt/format.h>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::profile {

std::vector<Field> config_fields(const StepConfig& config) {
  std::vector<Field> fields;
  fields.reserve(option_table().size());
  for (const OptionRow& row : option_table())
    fields.push_back({std::string(row.key), row.get(config)});
  return fields;
}

std::vector<Field> saved_config_fields(const StepConfig& config) {
  std::vector<Field> fields;
  for (const OptionRow& row : option_table())
    if (!row.newer || !row.is_default(config))
      fields.push_back({std::string(row.key), row.get(config)});
  return fields;
}

bool set_config_field(StepConfig& config, const Field& field) {
  const OptionRow* row = find_option_key(field.name);
  if (row == nullptr) return false;
  const OptionValue now = row->get(config);
  // JSON writes 1.0 as a number that a reader may take for an integer.
  const bool whole_decimal =
      std::holds_alternative<double>(now) && std::holds_alternative<std::int64_t>(field.value);
  if (field.value.index() != now.index() && !whole_decimal)
    throw UserError(fmt::format("\"{}\" is not a value of it", to_string(field.value)));
  row->set(*row, field.value, config);
  return true;
}

std::string to_string(const FieldValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const std::int64_t* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&value)) return fmt::format("{}", *d);
  return std::get<std::string>(value);
}

}  // namespace ac_advisor::profile
