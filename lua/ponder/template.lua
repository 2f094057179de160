--- Text templates, for prompts that are easier to edit as text than as Lua.
---
---     local render = template.compile "Task: {{task}}\n{{#steps}}\n- {{.}}\n{{/steps}}"
---     print(render { task = "add", steps = { "one", "two" } })
---
--- `{{name}}`, `{{a.b}}`     a text or number; an error if there is none
--- `{{#name}}...{{/name}}`   for each item of a list (`{{.}}`; its fields hide outer ones); once
---                           for any other value; not at all for nil, false, "" and {}
--- `{{^name}}...{{/name}}`   once for nil, false, "" and {}
--- `{{! note}}`              a comment
---
--- A line with only a tag of the last three kinds is removed. Values are inserted unchanged: quote
--- text from others, as in `{ task = context:quote("task", text) }`.
local show = require("ponder.base.options").show

local function find(scopes, key)
    local name, i = key:match("^[^.]+"), #scopes -- {{.}} has none: it is the innermost scope
    while i > 1 and name and (type(scopes[i]) ~= "table" or scopes[i][name] == nil) do i = i - 1 end
    local value = scopes[i]
    for part in key:gmatch("[^.]+") do value = (type(value) == "table" or nil) and value[part] end
    return value
end

local function items_of(value)
    if type(value) == "table" and (#value > 0 or next(value) == nil) then return value end
    return value and value ~= "" and { value } or {}
end

local function write(nodes, scopes, out)
    for _, node in ipairs(nodes) do
        local value, items = node.key and find(scopes, node.key), {}
        if node.mark == "#" then items = items_of(value) end
        if node.mark == "^" and #items_of(value) == 0 then items = { scopes[#scopes] } end
        if node.mark == "" and type(value) ~= "string" and type(value) ~= "number" then
            error(("%s: {{%s}} must be text (got %s)"):format(node.at, node.key, show(value)), 0)
        end
        out[#out + 1] = node.text or node.mark == "" and value or nil
        for _, item in ipairs(items) do
            scopes[#scopes + 1] = item
            write(node, scopes, out)
            scopes[#scopes] = nil
        end
    end
    return out
end

---Compiles a template to a function that fills it in; errors begin with `NAME:LINE:`.
---@param text string
---@param name? string for errors, default "template"
---@return fun(values: table): string
local function compile(text, name)
    local wrong = type(text) ~= "string" and "template.compile: text must be a string (got %s)"
    if wrong then error(wrong:format(show(text)), 2) end
    local stack, from = { {} }, 1
    repeat
        local first, last, mark, key = text:find("{{([#^/!]?)%s*(.-)%s*}}", from)
        local literal, top = text:sub(from, (first or 0) - 1), stack[#stack]
        local _, breaks = text:sub(1, first):gsub("\n", "")
        local node = { mark = mark, key = key, at = (name or "template") .. ":" .. breaks + 1 }
        local indent = (from == 1 or text:byte(from - 1) == 10) and literal:match("^[ \t]*$")
            or literal:match("\n([ \t]*)$")
        local _, line_end = text:find("^[ \t]*\r?\n", (last or 0) + 1)
        if indent and line_end and (mark or "") ~= "" then
            literal, last = literal:sub(1, #literal - #indent), line_end
        end
        top[#top + 1] = { text = literal }
        if first and (key == "" and mark ~= "!" or mark == "/" and not top.key) then
            error(("%s: {{%s%s}} does not fit here"):format(node.at, mark, key), 0)
        elseif top.key and (not first or mark == "/" and key ~= top.key) then
            error(("%s: {{%s%s}} is not closed"):format(top.at, top.mark, top.key), 0)
        end
        if mark == "/" then stack[#stack] = nil elseif mark ~= "!" then top[#top + 1] = node end
        if mark == "#" or mark == "^" then stack[#stack + 1] = node end
        from = (last or #text) + 1
    until not first
    return function(values) return table.concat(write(stack[1], { values }, {})) end
end

return { compile = compile }
