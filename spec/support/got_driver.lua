--- Drives Graph of Thoughts machines in specs: answers their directives as a model would.

local merge = require("ponder.base.options").merge

local driver = {}

function driver.start(machine, env)
    return machine:update({ type = "start", prompt = "Why?", call_id = "c0" }, env)
end

--- The message that answers a directive, by its type.
driver.ANSWERS = {
    generate_thought = function(d)
        return { type = "thought_generated", content = "thought " .. d.call_id }
    end,
    score_thoughts = function(d)
        local scores = {}
        for i, thought in ipairs(d.thoughts) do
            scores[thought.id] = i / 10
        end
        return { type = "thoughts_scored", scores = scores }
    end,
    find_connections = function()
        return { type = "connections_found", connections = {} }
    end,
    aggregate = function(d)
        return { type = "aggregation_complete", result = "merged " .. #d.node_ids }
    end,
    vote = function(d)
        return { type = "vote_cast", node_id = d.node_ids[1] }
    end,
    refine = function()
        return { type = "thought_refined", content = "refined" }
    end,
}

---@param more table? fields that the message has as well, or instead
function driver.answer(machine, directive, more)
    local msg = driver.ANSWERS[directive.type](directive)
    msg.call_id = directive.call_id
    return machine:update(merge(msg, more))
end

--- Drives a machine to its end; gives the types of all directives, in order.
function driver.drive(machine)
    local types, open = {}, driver.start(machine)
    while #open > 0 do
        local directive = table.remove(open, 1)
        types[#types + 1] = directive.type
        if directive.type ~= "completed" then
            local came = driver.answer(machine, directive)
            table.move(came, 1, #came, #open + 1, open)
        end
    end
    return types
end

--- Answers what is open until a directive of that type comes, and returns all that came with it.
function driver.drive_to(machine, wanted, open)
    open = open or driver.start(machine)
    while open[1].type ~= wanted do
        local came = {}
        for _, directive in ipairs(open) do
            for _, next in ipairs((driver.answer(machine, directive))) do
                came[#came + 1] = next
            end
        end
        open = came
    end
    return open
end

--- Answers each directive with the message that `make(i, directive)` gives, call id apart; returns
--- what the last one led to.
function driver.reply_all(machine, directives, make)
    local came
    for i, directive in ipairs(directives) do
        local msg = make(i, directive)
        msg.call_id = directive.call_id
        came = machine:update(msg)
    end
    return came
end

function driver.scored(machine, directive, scores)
    return machine:update {
        type = "thoughts_scored",
        call_id = directive.call_id,
        scores = scores,
    }
end

return driver
