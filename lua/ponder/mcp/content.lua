--- The result of a tool of the Model Context Protocol, as text for a model.

local json = require "ponder.json"

local content = {}

local function note(kind, part)
    return ("[%s%s]"):format(kind, type(part.mimeType) == "string" and ", " .. part.mimeType or "")
end

local PARTS = {
    text = function(part) return part.text end,
    image = function(part) return note("an image", part) end,
    audio = function(part) return note("a recording", part) end,
    resource = function(part)
        local resource = type(part.resource) == "table" and part.resource or {}
        return type(resource.text) == "string" and resource.text
            or note("the resource " .. tostring(resource.uri), resource)
    end,
    resource_link = function(part)
        return note(("the resource %s: %s"):format(tostring(part.uri), tostring(part.name)), part)
    end,
}

---@param result table of tools/call
---@return string text names parts that are not text; without parts, the structured content as JSON
function content.text(result)
    local texts = {}
    for _, part in ipairs(type(result.content) == "table" and result.content or {}) do
        local read = type(part) == "table" and PARTS[part.type]
        local text = read and read(part)
        texts[#texts + 1] = type(text) == "string" and text or nil
    end
    if #texts == 0 and result.structuredContent ~= nil then
        return json.encode(result.structuredContent)
    end
    return table.concat(texts, "\n")
end

return content
