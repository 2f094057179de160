--- Changes of candidates: a model reflects on what went wrong, two candidates are merged, an option
--- takes a step. All that a model gets of items is of those to develop on.

local model_call = require "ponder.model.call"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local render = require "ponder.think.prompt.render"

local change = {}

local MAX_TEXT_BYTES = 20000

-- The text that a reply gives: the last one between tags, or its last code block.
local function read(reply)
    local text
    for inside in reply:gmatch "<prompt>(.-)</prompt>" do
        text = inside
    end
    for inside in (text and "" or reply):gmatch "```[%w]*\n(.-)\n%s*```" do
        text = inside
    end
    return text and quote.trim(text)
end

-- Asks the reflecting model for a text; or nil, message.
local function ask(self, prompt, name, text, fields, sample)
    options.merge(fields, { name = name, tags = self.subject:tags(name, text) })
    local messages, message = render.of_file("optimize", prompt, fields, MAX_TEXT_BYTES)
    local reply
    if messages then
        reply, message = model_call.ask(self.reflect_model, { messages = messages,
            sample = sample })
    end
    text = reply and read(reply.text or "")
    message = not text and (message or "the reply has no text between <prompt> and </prompt>")
        or nil
    self.unusable, self.problem = text and 0 or self.unusable + 1, message
    return text, message
end

local function copy(candidate)
    return { prompts = options.merge({}, candidate.prompts),
        options = options.merge({}, candidate.options) }
end

-- What a `propose` or `merge` of the user's returned, as prompts and options; or nil, message.
local function adopt(self, candidate, where, part, value, message)
    if type(value) == "string" and part and part.kind == "prompt" then
        value = { prompts = { [part.name] = value } }
    elseif type(value) ~= "table" then
        return nil, value == nil and tostring(message or where .. " proposed nothing")
            or ("%s must return { prompts =, options = }%s (got %s)"):format(where,
                part and " or a text" or "", options.show(value))
    end
    local changed = copy(candidate)
    for _, one in ipairs(self.subject.parts) do
        local field = one.kind .. "s"
        if type(value[field]) == "table" and value[field][one.name] ~= nil then
            changed[field][one.name] = value[field][one.name]
        end
    end
    return changed
end

-- A neighbour of an option's value.
local function step(value, range, random)
    local low, high = range.min, range.max
    if not low then
        local others = {}
        for _, other in ipairs(range) do
            others[#others + 1] = other ~= value and other or nil
        end
        return others[math.floor(random:u() * #others) + 1]
    end
    local is_integer = math.type(low) == "integer" and math.type(high) == "integer"
    local by = type(value) == "number" and math.abs(random:normal()) * (high - low) / 4
        or random:u() * (high - low)
    by = is_integer and math.floor(by + 0.5) or by
    by = is_integer and type(value) == "number" and math.max(by, 1) or by
    value = type(value) == "number" and value or low
    local is_up = value <= low or value < high and random:u() < 0.5
    return math.max(low, math.min(high, value + (is_up and by or -by)))
end

---A change of one part of a candidate.
---@return {prompts: table, options: table, change: string, part: string}?
function change.reflect(self, candidate, ticket, outcomes)
    local part = self.subject.parts[ticket.part] or self.subject.parts[1]
    local changed, message = copy(candidate), nil
    if self.propose then
        changed, message = adopt(self, candidate, "propose", part,
            self.propose(candidate, { part = part.name, items = outcomes }))
    elseif part.kind == "option" then
        changed.options[part.name] = step(candidate.options[part.name], part.range, ticket.random)
    else
        local text = candidate.prompts[part.name]
        changed.prompts[part.name], message = ask(self, "reflect", part.name, text,
            { text = text, items = outcomes }, ticket.number + 1)
    end
    if message or not changed then
        return nil, message
    end
    changed.change, changed.part = part.kind == "option" and "option" or "reflect", part.name
    return changed
end

-- The nearest common ancestor of two candidates.
local function ancestor_of(a, b)
    local line = {}
    while a do
        line[a], a = true, a.parent
    end
    while not line[b] do
        b = b.parent
    end
    return b
end

---Merges two candidates: of each part the version that has changed since their nearest common
---ancestor; if both have, a model merges the texts, and chance decides on an option.
---@param outcomes {[1]: ponder.optimize.Outcome[], [2]: ponder.optimize.Outcome[]} of both
---@return {prompts: table, options: table, change: string}?
function change.merge(self, a, b, ticket, outcomes)
    if self.merge then
        local changed, message = adopt(self, a, "merge", nil, self.merge(a, b))
        return changed and options.merge(changed, { change = "merge" }), message
    end
    local before, changed, items = ancestor_of(a, b), copy(a), {}
    for i, one in ipairs(outcomes[1]) do
        local other = outcomes[2][i]
        items[i] = { question = one.question, first_score = one.score, first_why = one.why,
            second_score = other.score, second_why = other.why }
    end
    for _, part in ipairs(self.subject.parts) do
        local field, name = part.kind .. "s", part.name
        local old, first, second = before[field][name], a[field][name], b[field][name]
        local have_both = first ~= old and second ~= old and first ~= second
        if first == old then
            changed[field][name] = second
        elseif have_both and part.kind == "option" then
            changed[field][name] = ticket.random:u() < 0.5 and first or second
        elseif have_both and not self.reflect_model then
            return nil, "both have changed the prompt " .. name
        elseif have_both then
            local merged, message = ask(self, "merge", name, first,
                { first = first, second = second, items = items }, ticket.number + 1)
            if message then
                return nil, message
            end
            changed.prompts[name] = merged
        end
    end
    return options.merge(changed, { change = "merge" })
end

return change
