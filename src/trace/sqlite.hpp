#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

/// SQLite, read-only, for files that anybody may have written: no views, no virtual tables, nothing
/// that their schema could run, a bound on the work of a query. Throws UserError naming the file.
namespace ac_advisor::trace {

class Rows {
 public:
  Rows(sqlite3* database, const std::string& query, const std::string& origin);
  /// Goes to the next row; false after the last one.
  bool next();
  /// NULL and text are 0.
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] bool is_null(int column) const;
  /// Valid until the next row.
  [[nodiscard]] std::string_view text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  sqlite3* database_;
  std::string origin_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  /// Messages call the file `origin`; empty: by its own name.
  explicit Database(const std::string& file, const std::string& origin = "");
  /// A database that is in memory: `bytes` must outlive it.
  [[nodiscard]] static Database in_memory(std::string_view bytes, const std::string& origin);

  /// Columns of the table; none where it is no plain table.
  [[nodiscard]] std::set<std::string> columns(const std::string& table) const;
  [[nodiscard]] Rows rows(const std::string& query) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  Database() = default;
  void harden();
  std::string origin_;
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace ac_advisor::trace
