--- What tasks wait on outside of the scheduler: see task.add_source.

local sources = {}

local MAX_WAIT_S = 1e6 -- a source is told to wait at most so long
local SLICE_MS = 5 -- with several sources pending, how long one of them may block

local list, turn = {}, 0

---Adds what is polled while tasks wait, such as the HTTP transport.
---@param source ponder.task.Source
function sources.add(source)
    list[#list + 1] = source
end

---@param source ponder.task.Source
---@return boolean whether it was there
function sources.remove(source)
    for i, s in ipairs(list) do
        if s == source then
            table.remove(list, i)
            return true
        end
    end
    return false
end

local function pending_sources()
    local pending = {}
    for _, source in ipairs(list) do
        if source.pending() then
            pending[#pending + 1] = source
        end
    end
    return pending
end

---Polls the sources that are pending. One alone may block as long as is asked; several take turns
---at blocking for a little, since none may keep the others' news waiting.
---@param seconds? number how long they may wait; nil: as long as it takes
---@param is_idle fun(): boolean whether there is still a reason to wait
---@return boolean whether any is pending
function sources.poll(seconds, is_idle)
    local limit_ms = seconds and math.ceil(math.min(seconds, MAX_WAIT_S) * 1000) or -1
    local only = #list == 1 and list[1]
    if only then -- as it mostly is, and this is asked once a round
        if not only.pending() then
            return false
        end
        only.poll(is_idle() and limit_ms or 0)
        return true
    end
    local pending = pending_sources()
    if #pending > 1 and limit_ms ~= 0 then
        limit_ms = limit_ms < 0 and SLICE_MS or math.min(limit_ms, SLICE_MS)
        turn = turn % #pending + 1
    end
    for i, source in ipairs(pending) do
        local may_block = (#pending == 1 or i == turn) and is_idle()
        source.poll(may_block and limit_ms or 0)
    end
    return #pending > 0
end

return sources
