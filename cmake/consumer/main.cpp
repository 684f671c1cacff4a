#include <iostream>

#include "ac_advisor/ir/op_table.hpp"
#include "ac_advisor/version.hpp"

int main() {
  std::cout << "ac_advisor " << ac_advisor::version << ", " << ac_advisor::ir::op_table().size()
            << " op kinds\n";
}
