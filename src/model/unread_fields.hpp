#pragma once

#include "ac_advisor/model/spec.hpp"
#include "family.hpp"
#include "fields.hpp"

namespace ac_advisor::model {

/// After a family has read its fields: throws UserError for the first of the others that changes
/// shapes or ops, with its value and what would be right; lists the rest in `spec.reading`.
/// `own_class`: the file is for the family's class in transformers, so that what its code does not
/// read changes nothing; off: for another one (--as, remote code).
void judge_unread_fields(const Family& family, const Fields& fields, bool own_class,
                         ModelSpec& spec);

/// The same for fields beside the decoder's, which change nothing of it: lists all that are unread.
void list_unread_fields(const Fields& fields, ModelSpec& spec);

}  // namespace ac_advisor::model
