---@meta ponder.core.random
error("a description for editors, not a module")

---Several generators for math.random and math.randomseed, one for each run.
local random = {}

---A new generator.
---@param seed integer as for math.randomseed
---@return userdata state
function random.new(seed) end

---Makes math.random and math.randomseed use this generator, even copies of them in a script's
---variables.
---@param state userdata? nil: that of the process
function random.use(state) end

---@return integer number from the system's entropy source
function random.draw() end

return random
