"""Operations: metrics, logs and traces without personal data."""
