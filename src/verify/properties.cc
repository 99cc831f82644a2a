#include "verify/properties.h"

#include <iterator>
#include <string>

#include "rewrite/rule_text.h"

namespace tandem::verify {

const std::vector<rewrite::Rule>& all_properties() {
  static const auto properties = [] {
    std::vector<rewrite::Rule> out;
    for (const auto& file : embedded_properties()) {
      auto rules = rewrite::parse_rules(file.text, std::string(file.name) + ".rules");
      out.insert(out.end(), std::make_move_iterator(rules.begin()),
                 std::make_move_iterator(rules.end()));
    }
    return out;
  }();
  return properties;
}

}  // namespace tandem::verify
