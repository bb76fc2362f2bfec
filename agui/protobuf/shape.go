package protobuf

import "slices"

// flattenOutcome puts the outcome's type in its place, and its lists beside it.
func flattenOutcome(lists ...string) func(map[string]any) map[string]any {
	return func(members map[string]any) map[string]any {
		outcome, _ := members["outcome"].(map[string]any)
		delete(members, "outcome")
		if kind, ok := outcome["type"].(string); ok {
			members["outcome"] = kind
		}
		for _, list := range lists {
			if value, ok := outcome[list]; ok {
				members[list] = value
			}
		}
		return members
	}
}

// nestOutcome is the way back. Lists that are empty are absent, except the interrupts of
// an interrupt: that there are none has to be found.
func nestOutcome(lists ...string) func(map[string]any) (map[string]any, error) {
	return func(members map[string]any) (map[string]any, error) {
		kind, _ := members["outcome"].(string)
		delete(members, "outcome")
		outcome := map[string]any{"type": kind}
		for _, list := range lists {
			value, _ := members[list].([]any)
			delete(members, list)
			if len(value) > 0 || list == "interrupts" && kind == "interrupt" {
				outcome[list] = value
			}
		}
		if kind != "" {
			members["outcome"] = outcome
		}
		return without("usage")(members)
	}
}

// without leaves a list out that is empty.
func without(list string) func(map[string]any) (map[string]any, error) {
	return func(members map[string]any) (map[string]any, error) {
		if value, ok := members[list].([]any); ok && len(value) == 0 {
			delete(members, list)
		}
		return members, nil
	}
}

// splitContent puts content in the field for its form.
func splitContent(members map[string]any) map[string]any {
	switch content := members["content"].(type) {
	case []any:
		members["contentParts"] = content
		delete(members, "content")
	case map[string]any:
		members["activityContent"] = content
		delete(members, "content")
	}
	return members
}

var errTwoContents = malformed("content in two forms")

// partsRoles are the roles whose content may be parts.
var partsRoles = []string{"user", "tool"}

var roles = []string{"developer", "system", "assistant", "user", "tool", "activity", "reasoning"}

// joinMessageContent is the way back from splitContent for messages.
func joinMessageContent(members map[string]any) (map[string]any, error) {
	role, _ := members["role"].(string)
	parts, _ := members["contentParts"].([]any)
	object, hasObject := members["activityContent"]
	_, hasText := members["content"]
	delete(members, "contentParts")
	delete(members, "activityContent")

	takesParts, takesObject := slices.Contains(partsRoles, role), role == "activity"
	if !slices.Contains(roles, role) {
		takesParts = len(parts) > 0
		takesObject = !takesParts && hasObject
	}
	switch {
	case hasText && (len(parts) > 0 || hasObject), hasObject && len(parts) > 0,
		len(parts) > 0 && !takesParts, hasObject && !takesObject, hasText && takesObject:
		return nil, errTwoContents
	case takesParts && !hasText:
		members["content"] = parts
	case hasObject:
		members["content"] = object
	}
	return without("toolCalls")(members)
}

// joinResultContent is the way back for TOOL_CALL_RESULT.
func joinResultContent(members map[string]any) (map[string]any, error) {
	parts, _ := members["contentParts"].([]any)
	_, hasText := members["content"]
	delete(members, "contentParts")
	switch {
	case hasText && len(parts) > 0:
		return nil, errTwoContents
	case !hasText:
		members["content"] = parts
	}
	return members, nil
}

// knownArm wraps an element of a union in the arm that its type names; it drops one of
// another type.
func knownArm(arms ...string) func(map[string]any) map[string]any {
	return func(members map[string]any) map[string]any {
		kind, _ := members["type"].(string)
		if !slices.Contains(arms, kind) {
			return nil
		}
		// A part whose source is of an unknown type goes with it.
		if source, ok := members["source"].(map[string]any); ok {
			if t, _ := source["type"].(string); !slices.Contains([]string{"data", "url", "file"}, t) {
				return nil
			}
		}
		return map[string]any{kind: members}
	}
}

// onlyArm is the way back. An arm that is not known leaves nothing.
func onlyArm(arms map[string]any) (map[string]any, error) {
	if len(arms) > 1 {
		return nil, malformed("a union with two arms")
	}
	for kind, value := range arms {
		members, _ := value.(map[string]any)
		if members != nil {
			members["type"] = kind
		}
		return members, nil
	}
	return nil, nil
}

// knownSource drops a part whose source is of an unknown type. That there is none at all has to
// be found.
func knownSource(members map[string]any) (map[string]any, error) {
	if source, ok := members["source"]; ok && source == nil {
		return nil, nil
	}
	return members, nil
}

func knownOperation(members map[string]any) map[string]any {
	if op, _ := members["op"].(string); !slices.Contains(operations, op) {
		return nil
	}
	return members
}
