#include "megatron_arguments.hpp"

#include <fmt/format.h>

namespace ac_advisor::model {

bool is_given(const Fields& fields, std::string_view field) {
  const JsonValue* value = fields.find(field);
  if (value == nullptr || value->is_null()) return false;
  const bool* flag = std::get_if<bool>(&value->data);
  return flag == nullptr || *flag;
}

void refuse_unplanned(const Fields& fields, std::span<const UnplannedArgument> arguments) {
  for (const UnplannedArgument& one : arguments)
    if (is_given(fields, one.field))
      fields.fail(one.field, fmt::format("is not planned yet: {}; run the training program itself: "
                                         "ac-advisor dryrun -- COMMAND",
                                         one.what));
}

}  // namespace ac_advisor::model
