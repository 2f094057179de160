--- Ways to get one good answer out of many tries.

local search = require "ponder.search"

local ensemble = {}

---Tree search over callbacks, under the name that such searches have with language models.
---@see ponder.search.run
ensemble.tree_of_thoughts = search.run

return ensemble
