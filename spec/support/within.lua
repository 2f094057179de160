--- Specs whose whole body runs within something, such as a task or a server:
---
---     local in_task = within(task.run)
---     it("sleeps", in_task(function() task.sleep(0.01) end))

---@param run function calls its last argument
---@return fun(...): fun() what busted calls: run(...)
local function within(run)
    return function(...)
        local arguments = table.pack(...)
        return function() run(table.unpack(arguments, 1, arguments.n)) end
    end
end

return within
