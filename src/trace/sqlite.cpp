#include "trace/sqlite.hpp"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "ac_advisor/model/error.hpp"

namespace ac_advisor::trace {
namespace {

// Two thousand million steps are tens of seconds: any real query over a trace of gigabytes ends
// long before.
constexpr int steps_between_checks = 1 << 20;
constexpr int checks = 2000;
constexpr int max_value_bytes = 16 << 20;

int count_down(void* left) { return --*static_cast<int*>(left) < 0 ? 1 : 0; }

[[noreturn]] void fail(sqlite3* database, const std::string& origin) {
  const int code = sqlite3_errcode(database);
  const std::string why = code == SQLITE_INTERRUPT
                              ? "a query over it does not end"
                              : std::string("SQLite says: ") + sqlite3_errmsg(database);
  throw UserError(origin + ": cannot be read (" + why +
                  "); export it again with nsys export --type sqlite");
}

/// A path as a URI, so that SQLite can be told that nobody writes to the file.
std::string immutable_uri(const std::string& file) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string uri = "file:";
  for (const char c : file) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : std::string{'%', hex[byte >> 4U], hex[byte & 15U]};
  }
  return uri + "?mode=ro&immutable=1";
}

/// SQLite reads what is missing at the end of a file as zeros.
void check_size(std::string_view head, std::uintmax_t size, const std::string& origin) {
  // docs: "Database File Format", the header: big-endian numbers.
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uintmax_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value = value << 8U | static_cast<unsigned char>(head[at + i]);
    return value;
  };
  if (head.size() < 100) throw UserError(origin + ": ends within the header of SQLite's format");
  const std::uintmax_t page_size = number(16, 2) == 1 ? 65536 : number(16, 2);
  const bool counted = number(24, 4) == number(92, 4);  // else the number of pages is an old one
  if (counted && number(28, 4) * page_size > size)
    throw UserError(origin + ": is cut off: " + std::to_string(size) + " of " +
                    std::to_string(number(28, 4) * page_size) + " bytes; copy or export it again");
}

std::string header_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string head(100, '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(stream.gcount()));
  return head;
}

}  // namespace

void Rows::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Rows::Rows(sqlite3* database, const std::string& query, const std::string& origin)
    : database_(database), origin_(origin) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, query.c_str(), -1, &statement, nullptr) != SQLITE_OK)
    fail(database, origin);
  statement_.reset(statement);
}

bool Rows::next() {
  // Armed for each row: a sort or a scan before the first one counts as a whole.
  int left = checks;
  sqlite3_progress_handler(database_, steps_between_checks, count_down, &left);
  const int result = sqlite3_step(statement_.get());
  sqlite3_progress_handler(database_, 0, nullptr, nullptr);
  if (result != SQLITE_ROW && result != SQLITE_DONE) fail(database_, origin_);
  return result == SQLITE_ROW;
}

std::int64_t Rows::integer(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_INTEGER ||
                 sqlite3_column_type(statement_.get(), column) == SQLITE_FLOAT
             ? sqlite3_column_int64(statement_.get(), column)
             : 0;
}

bool Rows::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::string_view Rows::text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) return "";
  const void* bytes = sqlite3_column_text(statement_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return bytes == nullptr ? "" : std::string_view(static_cast<const char*>(bytes), size);
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

void Database::harden() {
  sqlite3* db = database_.get();
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, max_value_bytes);
  sqlite3_exec(db, "PRAGMA cell_size_check=ON", nullptr, nullptr, nullptr);
  sqlite3_exec(db, "PRAGMA mmap_size=0", nullptr, nullptr, nullptr);
}

Database::Database(const std::string& file, const std::string& origin)
    : origin_(origin.empty() ? file : origin) {
  std::error_code none;
  check_size(header_of(file), std::filesystem::file_size(file, none), origin_);
  sqlite3* database = nullptr;
  const int result = sqlite3_open_v2(immutable_uri(file).c_str(), &database,
                                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  database_.reset(database);
  if (database == nullptr) throw UserError(origin_ + ": cannot be opened: out of memory");
  if (result != SQLITE_OK) fail(database, origin_);
  harden();
}

Database Database::in_memory(std::string_view bytes, const std::string& origin) {
  Database made;
  made.origin_ = origin;
  check_size(bytes.substr(0, 100), bytes.size(), origin);
  sqlite3* database = nullptr;
  const int result = sqlite3_open_v2(":memory:", &database, SQLITE_OPEN_READWRITE, nullptr);
  made.database_.reset(database);
  if (database == nullptr) throw UserError(origin + ": cannot be opened: out of memory");
  if (result != SQLITE_OK) fail(database, origin);
  // SQLite takes the bytes as not const, but a read-only database is only read.
  auto* const memory =
      static_cast<unsigned char*>(const_cast<void*>(static_cast<const void*>(bytes.data())));
  if (sqlite3_deserialize(database, "main", memory, static_cast<std::int64_t>(bytes.size()),
                          static_cast<std::int64_t>(bytes.size()),
                          SQLITE_DESERIALIZE_READONLY) != SQLITE_OK)
    fail(database, origin);
  made.harden();
  return made;
}

std::set<std::string> Database::columns(const std::string& table) const {
  Rows kind = rows("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = '" + table + "'");
  std::set<std::string> names;
  // A plain one: a virtual table runs code of its own.
  if (!kind.next() || !kind.text(0).starts_with("CREATE TABLE")) return names;
  Rows columns = rows("PRAGMA table_info('" + table + "')");
  while (columns.next()) names.emplace(columns.text(1));
  return names;
}

Rows Database::rows(const std::string& query) const { return {database_.get(), query, origin_}; }

}  // namespace ac_advisor::trace
