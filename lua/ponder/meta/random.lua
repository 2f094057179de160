---@meta ponder.core.random
error("a description for editors, not a module")

---Several generators for math.random and math.randomseed, one for each run.
local random = {}

---A generator of its own.
---@param seed integer as of math.randomseed
---@return userdata state
function random.new(seed) end

---math.random and math.randomseed go on with this generator, also where a script has them in
---variables of its own.
---@param state userdata? nil: that of the process
function random.use(state) end

---@return integer number one that nobody can foresee
function random.draw() end

return random
